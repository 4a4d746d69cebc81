//! `fabbench softroce`: creates, removes and shows Soft-RoCE (rxe) devices on this host.
//!
//! The work is done by the system's own tools (`rdma` of iproute2, `modprobe`), as an
//! administrator would by hand; what they say is passed on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::cli::SoftroceAction;

use super::{CommandError, ExitCode, print_page};

/// Runs the action; prints devices to stdout.
pub fn run(action: &SoftroceAction) -> Result<ExitCode, CommandError> {
    match action {
        SoftroceAction::Up { netdev, name } => up(netdev.as_deref(), name.as_deref()),
        SoftroceAction::Down { name } => down(name.as_deref()),
        SoftroceAction::Status => status(),
    }
}

/// Creates a device on `netdev` and shows it.
fn up(netdev: Option<&str>, name: Option<&str>) -> Result<ExitCode, CommandError> {
    let netdev = match netdev {
        Some(netdev) => checked_netdev(netdev)?,
        None => default_netdev()?,
    };
    if let Some(device) = devices().into_iter().find(|d| d.netdev == netdev) {
        print_page(&format!("{} is on {netdev} already", device.name))?;
        return Ok(ExitCode::PASS);
    }
    load_module()?;
    let name = match name {
        Some(name) => checked_name(name)?,
        None => free_name(),
    };
    rdma(&["link", "add", &name, "type", "rxe", "netdev", &netdev])?;
    print_page(&format!("{name} created on {netdev}; fabbench softroce down {name} removes it"))?;
    Ok(ExitCode::PASS)
}

/// Removes one device or all of them.
fn down(name: Option<&str>) -> Result<ExitCode, CommandError> {
    let all = devices();
    let chosen: Vec<_> =
        all.iter().filter(|d| name.is_none_or(|n| d.name == n || d.netdev == n)).collect();
    if let (Some(name), true) = (name, chosen.is_empty()) {
        let have = all.iter().map(|d| d.name.as_str()).collect::<Vec<_>>().join(", ");
        let have = if have.is_empty() { "none".to_string() } else { have };
        return Err(CommandError::usage(format!(
            "{name}: no Soft-RoCE device of this name or on this interface (there are: {have})"
        )));
    }
    for device in &chosen {
        rdma(&["link", "delete", &device.name])?;
        print_page(&format!("{} removed from {}", device.name, device.netdev))?;
    }
    if chosen.is_empty() {
        print_page("no Soft-RoCE device to remove")?;
    }
    Ok(ExitCode::PASS)
}

/// Prints one line a device; says what to do when there is none.
fn status() -> Result<ExitCode, CommandError> {
    let devices = devices();
    for device in &devices {
        print_page(&format!("{} on {}: {}", device.name, device.netdev, device.state))?;
    }
    if devices.is_empty() {
        print_page("no Soft-RoCE device; fabbench softroce up [NETDEV] creates one (needs root)")?;
    }
    Ok(ExitCode::PASS)
}

/// A Soft-RoCE device of this host.
struct SoftDevice {
    name: String,
    netdev: String,
    state: String,
}

/// All devices of the kernel that are rxe: they name their interface in `parent`.
fn devices() -> Vec<SoftDevice> {
    let mut names: Vec<PathBuf> = fs::read_dir("/sys/class/infiniband")
        .map(|dir| dir.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    names.sort();
    names.iter().filter_map(|path| soft_device(path)).collect()
}

/// The rxe device at `path`, none for another kind. rxe has no PCI device and a `parent` file.
fn soft_device(path: &Path) -> Option<SoftDevice> {
    let netdev = fs::read_to_string(path.join("parent")).ok()?.trim().to_string();
    let state = fs::read_to_string(path.join("ports/1/state")).unwrap_or_default();
    let state = state.split(": ").last().unwrap_or("state unknown").trim().to_string();
    Some(SoftDevice { name: path.file_name()?.to_string_lossy().into(), netdev, state })
}

/// The interface of the default route.
fn default_netdev() -> Result<String, CommandError> {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    routes
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|f| f.len() > 2 && f[1] == "00000000")
        .map(|f| f[0].to_string())
        .ok_or_else(|| {
            CommandError::usage(
                "softroce up: this host has no default route: name the interface, \
                 e.g. fabbench softroce up eth0"
                    .into(),
            )
        })
}

/// Refuses an interface that does not exist.
fn checked_netdev(netdev: &str) -> Result<String, CommandError> {
    let plain = !netdev.is_empty() && !netdev.starts_with('-') && !netdev.contains('/');
    if plain && Path::new("/sys/class/net").join(netdev).exists() {
        return Ok(netdev.to_string());
    }
    Err(CommandError::usage(format!(
        "softroce up {netdev}: no such network interface; ip link shows what there is"
    )))
}

/// Refuses a device name that the kernel would not take.
fn checked_name(name: &str) -> Result<String, CommandError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() < 64 && !name.starts_with('-') && name.chars().all(plain) {
        return Ok(name.to_string());
    }
    Err(CommandError::usage(format!("softroce up --name {name}: not a name for a device")))
}

/// First of rxe0, rxe1, … that is not taken.
fn free_name() -> String {
    let taken = |n: &u32| Path::new(&format!("/sys/class/infiniband/rxe{n}")).exists();
    format!("rxe{}", (0..).find(|n| !taken(n)).unwrap_or(0))
}

/// Loads rdma_rxe where it is not loaded or built in.
fn load_module() -> Result<(), CommandError> {
    if Path::new("/sys/module/rdma_rxe").exists() {
        return Ok(());
    }
    let next = "install the kernel's extra modules (Ubuntu: linux-modules-extra-$(uname -r)) or \
                run in a virtual machine with a stock kernel";
    let output = run_tool("modprobe", &["rdma_rxe"])?;
    if output.status.success() {
        return Ok(());
    }
    Err(CommandError::incomplete(format!(
        "softroce up: load module rdma_rxe: {}; {next}",
        last_line(&output)
    )))
}

/// Runs `rdma` with these arguments.
fn rdma(arguments: &[&str]) -> Result<(), CommandError> {
    let output = run_tool("rdma", arguments)?;
    if output.status.success() {
        return Ok(());
    }
    let why = last_line(&output);
    let hint = if why.contains("not permitted") { "; this needs root" } else { "" };
    Err(CommandError::incomplete(format!("rdma {}: {why}{hint}", arguments.join(" "))))
}

/// Runs a system tool; the error says which package has it.
fn run_tool(tool: &str, arguments: &[&str]) -> Result<Output, CommandError> {
    let path = std::env::var("PATH").unwrap_or_default();
    // An ordinary user's PATH often lacks the sbin directories.
    let path = format!("{path}:/usr/sbin:/sbin");
    Command::new(tool).args(arguments).env("PATH", path).output().map_err(|error| {
        let package = if tool == "rdma" { "iproute2" } else { "kmod" };
        CommandError::incomplete(format!("run {tool}: {error}; install {package}"))
    })
}

/// What a tool said last, or its exit status.
fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    match text.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => line.trim().to_string(),
        None => output.status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_options_or_paths_are_refused() {
        for name in ["", "-x", "a/b", "a b", "a;b"] {
            assert!(checked_name(name).is_err(), "{name}");
        }
        assert_eq!(checked_name("rxe_eth0").unwrap(), "rxe_eth0");
        assert!(checked_netdev("../net/lo").is_err());
        assert!(checked_netdev("-lo").is_err());
        assert_eq!(checked_netdev("lo").unwrap(), "lo");
    }
}
