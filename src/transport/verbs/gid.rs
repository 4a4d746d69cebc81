//! The GID table of a port.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::net::Ipv6Addr;
use std::path::Path;

use fabbench_harness::snapshot::{GidFact, GidKind};

use super::device::Context;
use super::error::{CallError, Operation, Result};
use super::ffi;

/// `IBV_LINK_LAYER_ETHERNET` in the width of a port's attribute.
const ETHERNET: u8 = ffi::IBV_LINK_LAYER_ETHERNET as u8;

impl Context {
    /// Readable entries of `port`'s GID table that are not zero, with type and interface, in the
    /// order of their index. By one call where the library has it, else from sysfs.
    pub fn gids(&self, port: u8) -> Result<Vec<GidFact>> {
        let attributes = self.query_port(port)?;
        if let Some(query) = self.symbols()._ibv_query_gid_table {
            match self.query_gid_table(query, port) {
                Err(libc::EOPNOTSUPP | libc::ENOSYS) => {}
                Err(errno) => {
                    let object = format!("{}:{port}", self.name());
                    return Err(CallError::new(Operation::QueryGids, object, errno).into());
                }
                Ok(gids) => return Ok(gids),
            }
        }
        let ports = format!("/sys/class/infiniband/{}/ports/{port}", self.name());
        Ok(gids_from_sysfs(Path::new(&ports), attributes.link_layer == ETHERNET))
    }

    /// The whole device's table by one call, cut down to `port`; an errno on failure.
    fn query_gid_table(
        &self,
        query: ffi::_ibv_query_gid_table,
        port: u8,
    ) -> std::result::Result<Vec<GidFact>, i32> {
        // SAFETY: numbers only.
        let empty: ffi::ibv_gid_entry = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut entries = vec![empty; self.gid_capacity()];
        let size = size_of::<ffi::ibv_gid_entry>();
        // SAFETY: the context is open, and the array has as many entries of that size as said.
        let count = unsafe { query(self.raw(), entries.as_mut_ptr(), entries.len(), 0, size) };
        let count = usize::try_from(count).map_err(|_| -count as i32)?;
        let of_port = entries.iter().take(count).filter(|entry| entry.port_num == u32::from(port));
        let mut gids: Vec<_> = of_port.filter_map(fact).collect();
        gids.sort_by_key(|gid| gid.index);
        Ok(gids)
    }
}

/// None for an entry that is zero or of an unknown type.
fn fact(entry: &ffi::ibv_gid_entry) -> Option<GidFact> {
    let kind = match entry.gid_type {
        ffi::IBV_GID_TYPE_IB => GidKind::Ib,
        ffi::IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
        ffi::IBV_GID_TYPE_ROCE_V2 => GidKind::RoceV2,
        _ => return None,
    };
    // SAFETY: any bytes are a valid GID.
    let gid = Ipv6Addr::from(unsafe { entry.gid.raw });
    let netdev = interface_name(entry.ndev_ifindex);
    (!gid.is_unspecified()).then_some(GidFact { index: entry.gid_index, gid, kind, netdev })
}

fn interface_name(index: u32) -> Option<String> {
    let mut name = [0 as c_char; libc::IF_NAMESIZE];
    // SAFETY: the array is as long as the call wants it.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    // SAFETY: the call ends the name with a zero byte.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(found) }.to_string_lossy().into_owned())
}

/// The same from `…/ports/N`; entries that cannot be read (containers) are left out.
fn gids_from_sysfs(port: &Path, ethernet: bool) -> Vec<GidFact> {
    let text = |path: String| std::fs::read_to_string(port.join(path)).ok();
    let names = std::fs::read_dir(port.join("gids")).into_iter().flatten().flatten();
    let indexes = names.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut gids: Vec<_> = indexes
        .filter_map(|index| {
            let gid: Ipv6Addr = text(format!("gids/{index}"))?.trim().parse().ok()?;
            let kind = match text(format!("gid_attrs/types/{index}")).as_deref().map(str::trim) {
                Some("RoCE v2") => GidKind::RoceV2,
                // The kernel has one word for both: "IB/RoCE v1".
                _ if ethernet => GidKind::RoceV1,
                _ => GidKind::Ib,
            };
            let netdev = text(format!("gid_attrs/ndevs/{index}")).map(|name| name.trim().into());
            (!gid.is_unspecified()).then_some(GidFact { index, gid, kind, netdev })
        })
        .collect();
    gids.sort_by_key(|gid| gid.index);
    gids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysfs_holes_are_left_out_and_kinds_follow_the_link_layer() {
        let port = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = port.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n");
        write("gids/2", "fe80:0000:0000:0000:0a00:27ff:fe00:0001\n");
        write("gid_attrs/types/2", "IB/RoCE v1\n");
        write("gids/12", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
        write("gid_attrs/types/12", "RoCE v2\n");
        write("gid_attrs/ndevs/12", "eth0\n");
        let gids = gids_from_sysfs(port.path(), true);
        assert_eq!(gids.iter().map(|gid| gid.index).collect::<Vec<_>>(), [2, 12]);
        assert_eq!((gids[0].kind, gids[0].netdev.as_deref()), (GidKind::RoceV1, None));
        assert_eq!((gids[1].kind, gids[1].netdev.as_deref()), (GidKind::RoceV2, Some("eth0")));
        assert_eq!(gids[1].gid, "::ffff:10.0.0.1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(gids_from_sysfs(port.path(), false)[0].kind, GidKind::Ib);
    }

    #[test]
    fn entries_of_the_call_keep_index_type_and_interface() {
        let gid = ffi::ibv_gid { raw: Ipv6Addr::LOCALHOST.octets() };
        let entry =
            ffi::ibv_gid_entry { gid, gid_index: 3, port_num: 1, gid_type: 2, ndev_ifindex: 1 };
        let gid = fact(&entry).unwrap();
        assert_eq!((gid.index, gid.kind), (3, GidKind::RoceV2));
        assert_eq!(gid.netdev.as_deref(), Some("lo"));
        assert_eq!(fact(&ffi::ibv_gid_entry { gid_type: 99, ..entry }), None);
        let zero = ffi::ibv_gid { raw: [0; 16] };
        assert_eq!(fact(&ffi::ibv_gid_entry { gid: zero, ..entry }), None);
    }
}
