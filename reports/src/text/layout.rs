//! Paragraphs and tables within a width.

use anstyle::{AnsiColor, Style};
use textwrap::WordSplitter;
use textwrap::core::display_width;

use super::Options;
use crate::model::Status;

/// Narrower terminals are treated as this wide.
const NARROWEST: usize = 20;
/// Between two columns of a table.
const GAP: usize = 2;
/// What a wrapping last column needs at least.
const LEAST_TEXT: usize = 24;

/// A text under construction.
pub(super) struct Page {
    text: String,
    width: usize,
    color: bool,
    /// Adds every parameter, path, counter and repeat.
    pub(super) explain: bool,
}

impl Page {
    pub(super) fn new(options: &Options) -> Self {
        Page {
            text: String::new(),
            width: options.width.max(NARROWEST),
            color: options.color,
            explain: options.explain,
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Begins a part: an empty line and its title.
    pub(super) fn title(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        for line in textwrap::wrap(title, self.width) {
            let line = self.bold(&line);
            self.line(&line);
        }
    }

    /// A paragraph, indented; further lines of it a little more.
    pub(super) fn paragraph(&mut self, text: &str) {
        self.wrapped(text, "  ", "    ");
    }

    /// An item of a list.
    pub(super) fn item(&mut self, text: &str) {
        self.wrapped(text, "  - ", "    ");
    }

    /// A paragraph between given margins.
    pub(super) fn wrapped(&mut self, text: &str, first: &str, rest: &str) {
        let options = textwrap::Options::new(self.width)
            .initial_indent(first)
            .subsequent_indent(rest)
            .word_splitter(WordSplitter::NoHyphenation)
            .break_words(false);
        for line in textwrap::wrap(text, options) {
            self.line(&line);
        }
    }

    /// A table. Where it would be too wide, what all rows share is said below it instead of in
    /// each of them; where that is not enough, it becomes a list of rows.
    pub(super) fn table(&mut self, table: Table) {
        let table = table.without_empty_columns();
        if table.rows.is_empty() || table.columns.is_empty() {
            return;
        }
        if let Some(widths) = self.fitting(&table) {
            return self.grid(&table, &widths);
        }
        match self.folded(table.clone()) {
            Some((table, widths, shared)) => {
                self.grid(&table, &widths);
                self.paragraph(&format!("all of them: {}", shared.join(", ")));
            }
            None => self.list(&table),
        }
    }

    /// A table that fits since it lacks columns in which all rows say the same; and what they say.
    fn folded(&self, mut table: Table) -> Option<(Table, Vec<usize>, Vec<String>)> {
        let mut shared = Vec::new();
        loop {
            shared.push(table.take_shared_column()?);
            if let Some(widths) = self.fitting(&table) {
                return Some((table, widths, shared));
            }
        }
    }

    /// The widths of the columns, if the table fits.
    fn fitting(&self, table: &Table) -> Option<Vec<usize>> {
        let mut widths = table.widths();
        let others: usize = widths.iter().rev().skip(1).map(|width| width + GAP).sum();
        let room = self.width.saturating_sub(others + GAP);
        let last = widths.last_mut()?;
        if table.columns.last()?.wraps && room >= LEAST_TEXT {
            *last = (*last).min(room);
        }
        (*last <= room).then_some(widths)
    }

    /// A status in its word and colour.
    pub(super) fn status(&self, status: Status) -> String {
        let word = if status == Status::Unjudged { "not judged" } else { status.word() };
        self.painted(word, color_of(status))
    }

    /// Text in the colour of a status.
    pub(super) fn painted_as(&self, text: &str, status: Status) -> String {
        self.painted(text, color_of(status).bold())
    }

    /// Columns of the page.
    pub(super) fn room(&self) -> usize {
        self.width
    }

    /// A line that was laid out already.
    pub(super) fn drawn(&mut self, line: &str) {
        self.line(line);
    }

    fn bold(&self, text: &str) -> String {
        self.painted(text, Style::new().bold())
    }

    fn painted(&self, text: &str, style: Style) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn grid(&mut self, table: &Table, widths: &[usize]) {
        let titles: Vec<String> = table.columns.iter().map(|c| c.title.to_owned()).collect();
        let dim = Style::new().dimmed();
        let head = grid_line(&table.columns, &titles, widths);
        let head = self.painted(head.trim_end(), dim);
        self.line(&head);
        let last = widths.len() - 1;
        for row in &table.rows {
            let mut row = row.clone();
            let options = textwrap::Options::new(widths[last])
                .word_splitter(WordSplitter::NoHyphenation)
                .break_words(false);
            let mut parts = textwrap::wrap(&row[last], options).into_iter().map(String::from);
            let first = parts.next().unwrap_or_default();
            let rest: Vec<String> = parts.collect();
            row[last] = first;
            self.line(&grid_line(&table.columns, &row, widths));
            for part in rest {
                let mut blank = vec![String::new(); last];
                blank.push(part);
                self.line(&grid_line(&table.columns, &blank, widths));
            }
        }
    }

    /// Row by row: what names it on the first line, then `title value` one after the other.
    fn list(&mut self, table: &Table) {
        for row in &table.rows {
            let filled = || table.columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
            let keys: Vec<&str> =
                filled().filter(|(c, _)| c.key).map(|(_, cell)| cell.as_str()).collect();
            self.paragraph(&keys.join("  "));
            let values = filled().filter(|(c, _)| !c.key);
            let parts: Vec<String> =
                values.map(|(c, cell)| format!("{} {cell}", c.title).trim().to_owned()).collect();
            self.flow(&parts);
        }
    }

    /// Parts separated by commas, broken between parts as long as one fits on a line.
    fn flow(&mut self, parts: &[String]) {
        const INDENT: &str = "      ";
        let mut line = String::new();
        for (index, part) in parts.iter().enumerate() {
            let comma = if index + 1 < parts.len() { "," } else { "" };
            let used = INDENT.len() + display_width(&line);
            if !line.is_empty() && used + 1 + display_width(part) + comma.len() > self.width {
                self.wrapped(&line, INDENT, INDENT);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(part);
            line.push_str(comma);
        }
        if !line.is_empty() {
            self.wrapped(&line, INDENT, INDENT);
        }
    }
}

/// One column of a table.
#[derive(Debug, Clone)]
pub(super) struct Column {
    title: &'static str,
    right: bool,
    key: bool,
    wraps: bool,
}

impl Column {
    /// Says which row it is.
    pub(super) fn key(title: &'static str) -> Self {
        Column { title, right: false, key: true, wraps: false }
    }

    /// A figure, aligned to the right.
    pub(super) fn number(title: &'static str) -> Self {
        Column { title, right: true, key: false, wraps: false }
    }

    /// A word or two.
    pub(super) fn word(title: &'static str) -> Self {
        Column { title, right: false, key: false, wraps: false }
    }

    /// Sentences; as last column it wraps.
    pub(super) fn text(title: &'static str) -> Self {
        Column { title, right: false, key: false, wraps: true }
    }
}

/// Rows of as many cells as there are columns; an empty cell does not apply.
#[derive(Debug, Clone)]
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row; cells that are missing are empty.
    pub(super) fn row(&mut self, mut cells: Vec<String>) {
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    fn without_empty_columns(mut self) -> Self {
        for index in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row[index].is_empty()) {
                self.columns.remove(index);
                for row in &mut self.rows {
                    row.remove(index);
                }
            }
        }
        self
    }

    /// Removes the first column, the leading one apart, in which all rows say the same; returns
    /// its title and what they say.
    fn take_shared_column(&mut self) -> Option<String> {
        let first = self.rows.first()?.clone();
        let shared = |index: &usize| self.rows.iter().all(|row| row[*index] == first[*index]);
        let index = (1..self.columns.len()).find(shared)?;
        for row in &mut self.rows {
            row.remove(index);
        }
        Some(format!("{} {}", self.columns.remove(index).title, first[index]))
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |index: usize| {
            let cells = self.rows.iter().map(|row| display_width(&row[index]));
            cells.max().unwrap_or(0).max(display_width(self.columns[index].title))
        };
        (0..self.columns.len()).map(widest).collect()
    }
}

fn grid_line(columns: &[Column], cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for ((column, cell), width) in columns.iter().zip(cells).zip(widths) {
        let blank = " ".repeat(width.saturating_sub(display_width(cell)));
        line.push_str(&" ".repeat(GAP));
        if column.right {
            line.push_str(&blank);
            line.push_str(cell);
        } else {
            line.push_str(cell);
            line.push_str(&blank);
        }
    }
    line
}

fn color_of(status: Status) -> Style {
    let color = match status {
        Status::Pass => AnsiColor::Green,
        Status::Warn | Status::Incomplete => AnsiColor::Yellow,
        Status::Error | Status::Fail => AnsiColor::Red,
        Status::NotApplicable | Status::Unjudged | Status::Unknown => AnsiColor::Cyan,
    };
    color.on_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new(vec![Column::key("rail"), Column::number("median"), Column::text("why")]);
        table.row(vec!["rail0".into(), "9.81 Gb/s".into(), "same subnet".into()]);
        table.row(vec!["rail1".into(), "431.0 Mb/s".into()]);
        table
    }

    fn rendered(width: usize, table: Table) -> String {
        let mut page = Page::new(&Options { width, ..Options::default() });
        page.table(table);
        page.finish()
    }

    #[test]
    fn figures_line_up_on_the_right() {
        let text =
            "  rail       median  why\n  rail0   9.81 Gb/s  same subnet\n  rail1  431.0 Mb/s\n";
        assert_eq!(rendered(80, table()), text);
    }

    #[test]
    fn a_table_that_does_not_fit_becomes_a_list_and_loses_nothing() {
        let text = "  rail0\n      median 9.81 Gb/s,\n      why same subnet\n  rail1\n      median 431.0 Mb/s\n";
        assert_eq!(rendered(24, table()), text);
        for width in 0..40 {
            let text = rendered(width, table());
            assert!(text.contains("9.81") && text.contains("same") && text.contains("431.0"));
        }
    }

    #[test]
    fn what_all_rows_share_is_said_once_where_room_is_short() {
        let columns = ["rail", "size", "median"].map(Column::key).to_vec();
        let mut table = Table::new(columns);
        table.row(vec!["rail0".into(), "64 KiB".into(), "9.81 Gb/s".into()]);
        table.row(vec!["rail1".into(), "64 KiB".into(), "9.79 Gb/s".into()]);
        let wide =
            "  rail   size    median\n  rail0  64 KiB  9.81 Gb/s\n  rail1  64 KiB  9.79 Gb/s\n";
        assert_eq!(rendered(26, table.clone()), wide);
        let narrow = "  rail   median\n  rail0  9.81 Gb/s\n  rail1  9.79 Gb/s\n  all of them: size 64\n    KiB\n";
        assert_eq!(rendered(22, table), narrow);
    }

    #[test]
    fn a_long_last_column_wraps_under_itself() {
        let mut table = table();
        table.row(vec!["rail2".into(), "1.00 Gb/s".into(), "one two three four five six".into()]);
        let text = rendered(46, table);
        assert!(text.ends_with("one two three four five\n                     six\n"), "{text}");
    }

    #[test]
    fn columns_in_which_nothing_stands_are_left_out() {
        let mut table = Table::new(vec![Column::key("rail"), Column::number("ceiling")]);
        table.row(vec!["rail0".into()]);
        assert_eq!(rendered(80, table), "  rail\n  rail0\n");
    }

    #[test]
    fn colour_does_not_move_columns() {
        let mut page = Page::new(&Options { color: true, ..Options::default() });
        let mut table = Table::new(vec![Column::key("judged"), Column::key("rail")]);
        table.row(vec![page.status(Status::Fail), "rail0".into()]);
        page.table(table);
        let text = page.finish();
        assert!(text.contains("fail\u{1b}[0m    rail0"), "{text:?}");
        assert!(!Page::new(&Options::default()).status(Status::Fail).contains('\u{1b}'));
    }
}
