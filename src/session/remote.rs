//! What is typed into the login shell of a remote host.
//!
//! The login shell may be any: it only ever sees `exec sh -c '…' 'argument'…`. Inside the quotes
//! stand no quote, exclamation mark, backslash or line end, which csh and fish would interpret.

/// Beginning of the line with which a host says that it can take a copy of the binary.
pub const PUSH_READY: &[u8] = b"fabbench-push-ready ";

const FIND: &str = r#"for f in fabbench "$HOME/.cargo/bin/fabbench" /usr/local/bin/fabbench; do
if command -v "$f" >/dev/null 2>&1; then exec "$f" agent --stdio --session "$0"; fi; done;
echo "fabbench: not found in PATH, ~/.cargo/bin, /usr/local/bin" >&2; exit 127"#;

const AT_PATH: &str = r#"f="$1"; case "$f" in "~/"*) f="$HOME/${f#??}";; esac;
if command -v "$f" >/dev/null 2>&1; then exec "$f" agent --stdio --session "$0"; fi;
echo "$f: not there, or not executable" >&2; exit 127"#;

// The directory goes away however this ends; the agent removes it itself as soon as it runs.
// The script file has no first line, so that running it needs neither an interpreter's path nor
// anything but the permission to execute.
const PUSH: &str = r#"d=$(mktemp -d "${TMPDIR:-/tmp}/fabbench-push-XXXXXXXX") || exit 125;
c() { rm -rf "$d"; }; trap c EXIT; trap "exit 1" HUP INT TERM PIPE;
echo : > "$d/t"; chmod 700 "$d/t"; x=exec; "$d/t" >/dev/null 2>&1 || x=noexec; rm -f "$d/t";
m=fabbench-push; echo "$m-ready $(uname -m) $x $(getconf GNU_LIBC_VERSION 2>/dev/null || echo none)";
head -c "$1" > "$d/fabbench"; n=$(wc -c < "$d/fabbench");
if [ "$n" -eq "$1" ]; then chmod 700 "$d/fabbench";
"$d/fabbench" agent --stdio --session "$0" --remove-self; fi"#;

const KILL: &str = r#"if grep -q "$0" "/proc/$1/cmdline" 2>/dev/null; then kill -9 "$1"; fi"#;

/// Runs the first fabbench found in PATH, ~/.cargo/bin, /usr/local/bin.
pub fn find(session: &str) -> String {
    command(FIND, &[session])
}

/// Runs the fabbench at `path`, which [`check_path`] has admitted.
pub fn at_path(session: &str, path: &str) -> String {
    command(AT_PATH, &[session, path])
}

/// Says what the host is ([`PUSH_READY`], architecture, `exec` or `noexec`, C library), takes
/// `size` bytes of a binary from standard input and runs it.
pub fn push(session: &str, size: usize) -> String {
    command(PUSH, &[session, &size.to_string()])
}

/// Ends process `pid` if it is an agent of `session`, even a stopped one.
pub fn kill(session: &str, pid: u32) -> String {
    command(KILL, &[session, &pid.to_string()])
}

/// Admits the place of a binary on a remote host.
///
/// # Errors
/// Says what is wrong with it: characters that some login shell would interpret.
pub fn check_path(path: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "/._-+@%,:=~".contains(c);
    if path.is_empty() || path.starts_with('-') {
        return Err(format!("--agent-path {path:?}: this is no path"));
    }
    match path.chars().find(|&c| !allowed(c)) {
        Some(c) => Err(format!(
            "--agent-path {path:?}: {c:?} is not possible here: use letters, digits and /._-+@%,:=~"
        )),
        None => Ok(()),
    }
}

fn command(script: &str, arguments: &[&str]) -> String {
    let mut command = format!("exec sh -c '{}'", script.replace('\n', " "));
    for argument in arguments {
        command.push_str(&format!(" '{argument}'"));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_login_shell_finds_anything_to_interpret() {
        for text in [find("ab12"), at_path("ab12", "~/x/fabbench"), push("ab12", 7), kill("ab", 1)]
        {
            let quoted = text.split('\'').nth(1).unwrap();
            assert!(!quoted.contains(['!', '\\', '\n']), "{quoted}");
            let quotes = text.matches('\'').count();
            assert!(quotes % 2 == 0 && quotes >= 4, "{text}");
        }
    }

    #[test]
    fn paths_with_characters_of_a_shell_are_refused() {
        check_path("/opt/fab-bench_1.0/bin/fabbench").unwrap();
        check_path("~/bin/fabbench").unwrap();
        for path in ["", "-x", "a b", "a'b", "$(id)", "a;b", "a!b", "a\nb"] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
    }
}
