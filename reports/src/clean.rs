//! Keeping what hosts call themselves from being read as anything but text.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Text for XML and HTML, between tags and in quoted attributes.
pub(crate) fn markup(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(visible(c)),
        }
    }
    safe
}

/// On one line, with a sign in the place of what would not be seen or would act.
pub(crate) fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() { ' ' } else { visible(c) }).collect()
}

/// The whole of a page whose own characters are all visible ones and line ends.
pub(crate) fn page(text: String) -> String {
    if text.chars().all(|c| visible(c) == c) { text } else { text.chars().map(visible).collect() }
}

/// A value all of whose texts can be printed on a terminal: what would act there, or break a line,
/// is replaced. None where it cannot be rebuilt, since a figure in it is no number.
pub(crate) fn plain<T: Serialize + DeserializeOwned + Clone>(value: &T) -> Option<Cow<'_, T>> {
    let text = serde_json::to_string(value).ok()?;
    // JSON writes control characters by their escape; a backslash before an n only looks so.
    let escapes = ["\\n", "\\r", "\\t", "\\b", "\\f", "\\u00"];
    if text.chars().all(|c| visible(c) == c) && !escapes.iter().any(|e| text.contains(e)) {
        return Some(Cow::Borrowed(value));
    }
    let mut plain: Value = serde_json::from_str(&text).ok()?;
    plain_value(&mut plain);
    serde_json::from_value(plain).ok().map(Cow::Owned)
}

fn plain_value(value: &mut Value) {
    match value {
        Value::String(text) => *text = line(text),
        Value::Array(all) => all.iter_mut().for_each(plain_value),
        Value::Object(all) => {
            all.values_mut().for_each(plain_value);
            let old = std::mem::take(all);
            *all = old.into_iter().map(|(key, value)| (line(&key), value)).collect();
        }
        _ => {}
    }
}

/// U+FFFD for control characters (of which XML allows three), for those that turn the direction
/// of writing, so that a name could look like another, and for the two that are no characters.
fn visible(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            char::REPLACEMENT_CHARACTER
        }
        '\u{fffe}' | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_tag_or_an_attribute() {
        assert_eq!(
            markup("</td><script x='1' y=\"2\">&amp;"),
            "&lt;/td&gt;&lt;script x=&#39;1&#39; y=&quot;2&quot;&gt;&amp;amp;"
        );
    }

    #[test]
    fn what_would_act_unseen_becomes_a_sign() {
        assert_eq!(
            line("a\0b\u{1b}[31mc\u{202e}d\r\ne\u{85}f"),
            "a\u{fffd}b\u{fffd}[31mc\u{fffd}d  e f"
        );
        assert_eq!(page("a\n\tb\u{7}\u{ffff}".into()), "a\n\tb\u{fffd}\u{fffd}");
        assert_eq!(page("Größe 3 × 1 µs – 数".into()), "Größe 3 × 1 µs – 数");
    }
}
