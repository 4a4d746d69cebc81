//! Bindings to libibverbs, generated from the public headers of rdma-core 55.0; not edited by hand.
//!
//! `tests/interop/src/bin/generate-ffi.rs` writes this file. Values that a driver may choose are
//! constants, functions are the types of their pointers, and layouts are asserted at compile time.

// The headers are rdma-core's, used under its BSD licence (also in LICENSE-rdma-core):
//
// Copyright (c) 2004, 2005 Topspin Communications.  All rights reserved.
// Copyright (c) 2004, 2011-2012 Intel Corporation.  All rights reserved.
// Copyright (c) 2005 PathScale, Inc.  All rights reserved.
// Copyright (c) 2005 Topspin Communications.  All rights reserved.
// Copyright (c) 2005, 2006 Cisco Systems.  All rights reserved.
// Copyright (c) 2005, 2006, 2007 Cisco Systems, Inc.  All rights reserved.
// Copyright (c) 2006 Mellanox Technologies.  All rights reserved.
// Copyright (c) 2017, Mellanox Technologies inc.  All rights reserved.
// Copyright (c) 2017-2018, Mellanox Technologies inc.  All rights reserved.
// Copyright (c) 2020 Intel Corporation.  All rights reserved.
//
// OpenIB.org BSD license (MIT variant)
//
// Redistribution and use in source and binary forms, with or without
// modification, are permitted provided that the following conditions are met:
//
//   - Redistributions of source code must retain the above copyright notice,
//     this list of conditions and the following disclaimer.
//
//   - Redistributions in binary form must reproduce the above copyright notice,
//     this list of conditions and the following disclaimer in the documentation
//     and/or other materials provided with the distribution.
//
// THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
// IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
// FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
// AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
// LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
// OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
// SOFTWARE.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    reason = "generated; names and documentation are rdma-core's"
)]

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use libc::{pthread_cond_t, pthread_mutex_t};

/// Asserts size, alignment and offsets of a structure, in bytes.
macro_rules! layout {
    ($name:ident, $size:literal, $align:literal, [$(($field:ident, $offset:literal)),*]) => {
        const _: () = {
            assert!(size_of::<$name>() == $size);
            assert!(align_of::<$name>() == $align);
            $(assert!(core::mem::offset_of!($name, $field) == $offset);)*
        };
    };
}

pub type __u32 = c_uint;
pub type __u64 = c_ulonglong;
pub type __be32 = __u32;
pub type __be64 = __u64;
pub const IB_UVERBS_ACCESS_LOCAL_WRITE: ib_uverbs_access_flags = 1;
pub const IB_UVERBS_ACCESS_REMOTE_WRITE: ib_uverbs_access_flags = 2;
pub const IB_UVERBS_ACCESS_REMOTE_READ: ib_uverbs_access_flags = 4;
pub const IB_UVERBS_ACCESS_REMOTE_ATOMIC: ib_uverbs_access_flags = 8;
pub const IB_UVERBS_ACCESS_MW_BIND: ib_uverbs_access_flags = 16;
pub const IB_UVERBS_ACCESS_ZERO_BASED: ib_uverbs_access_flags = 32;
pub const IB_UVERBS_ACCESS_ON_DEMAND: ib_uverbs_access_flags = 64;
pub const IB_UVERBS_ACCESS_HUGETLB: ib_uverbs_access_flags = 128;
pub const IB_UVERBS_ACCESS_FLUSH_GLOBAL: ib_uverbs_access_flags = 256;
pub const IB_UVERBS_ACCESS_FLUSH_PERSISTENT: ib_uverbs_access_flags = 512;
pub const IB_UVERBS_ACCESS_RELAXED_ORDERING: ib_uverbs_access_flags = 1048576;
pub const IB_UVERBS_ACCESS_OPTIONAL_RANGE: ib_uverbs_access_flags = 1072693248;
pub type ib_uverbs_access_flags = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_gid {
    pub raw: [u8; 16usize],
    pub global: ibv_gid__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_gid__bindgen_ty_1 {
    pub subnet_prefix: __be64,
    pub interface_id: __be64,
}
layout!(ibv_gid__bindgen_ty_1, 16, 8, [(subnet_prefix, 0), (interface_id, 8)]);
layout!(ibv_gid, 16, 8, [(raw, 0), (global, 0)]);
pub const IBV_GID_TYPE_IB: ibv_gid_type = 0;
pub const IBV_GID_TYPE_ROCE_V1: ibv_gid_type = 1;
pub const IBV_GID_TYPE_ROCE_V2: ibv_gid_type = 2;
pub type ibv_gid_type = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_gid_entry {
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}
layout!(
    ibv_gid_entry,
    32,
    8,
    [(gid, 0), (gid_index, 16), (port_num, 20), (gid_type, 24), (ndev_ifindex, 28)]
);
pub const IBV_NODE_UNKNOWN: ibv_node_type = -1;
pub const IBV_NODE_CA: ibv_node_type = 1;
pub const IBV_NODE_SWITCH: ibv_node_type = 2;
pub const IBV_NODE_ROUTER: ibv_node_type = 3;
pub const IBV_NODE_RNIC: ibv_node_type = 4;
pub const IBV_NODE_USNIC: ibv_node_type = 5;
pub const IBV_NODE_USNIC_UDP: ibv_node_type = 6;
pub const IBV_NODE_UNSPECIFIED: ibv_node_type = 7;
pub type ibv_node_type = c_int;
pub const IBV_TRANSPORT_UNKNOWN: ibv_transport_type = -1;
pub const IBV_TRANSPORT_IB: ibv_transport_type = 0;
pub const IBV_TRANSPORT_IWARP: ibv_transport_type = 1;
pub const IBV_TRANSPORT_USNIC: ibv_transport_type = 2;
pub const IBV_TRANSPORT_USNIC_UDP: ibv_transport_type = 3;
pub const IBV_TRANSPORT_UNSPECIFIED: ibv_transport_type = 4;
pub type ibv_transport_type = c_int;
pub type ibv_atomic_cap = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_device_attr {
    pub fw_ver: [c_char; 64usize],
    pub node_guid: __be64,
    pub sys_image_guid: __be64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: ibv_atomic_cap,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub max_raw_ipv6_qp: c_int,
    pub max_raw_ethy_qp: c_int,
    pub max_mcast_grp: c_int,
    pub max_mcast_qp_attach: c_int,
    pub max_total_mcast_qp_attach: c_int,
    pub max_ah: c_int,
    pub max_fmr: c_int,
    pub max_map_per_fmr: c_int,
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}
layout!(
    ibv_device_attr,
    232,
    8,
    [
        (fw_ver, 0),
        (node_guid, 64),
        (sys_image_guid, 72),
        (max_mr_size, 80),
        (page_size_cap, 88),
        (vendor_id, 96),
        (vendor_part_id, 100),
        (hw_ver, 104),
        (max_qp, 108),
        (max_qp_wr, 112),
        (device_cap_flags, 116),
        (max_sge, 120),
        (max_sge_rd, 124),
        (max_cq, 128),
        (max_cqe, 132),
        (max_mr, 136),
        (max_pd, 140),
        (max_qp_rd_atom, 144),
        (max_ee_rd_atom, 148),
        (max_res_rd_atom, 152),
        (max_qp_init_rd_atom, 156),
        (max_ee_init_rd_atom, 160),
        (atomic_cap, 164),
        (max_ee, 168),
        (max_rdd, 172),
        (max_mw, 176),
        (max_raw_ipv6_qp, 180),
        (max_raw_ethy_qp, 184),
        (max_mcast_grp, 188),
        (max_mcast_qp_attach, 192),
        (max_total_mcast_qp_attach, 196),
        (max_ah, 200),
        (max_fmr, 204),
        (max_map_per_fmr, 208),
        (max_srq, 212),
        (max_srq_wr, 216),
        (max_srq_sge, 220),
        (max_pkeys, 224),
        (local_ca_ack_delay, 226),
        (phys_port_cnt, 227)
    ]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_query_device_ex_input {
    pub comp_mask: u32,
}
layout!(ibv_query_device_ex_input, 4, 4, [(comp_mask, 0)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_odp_caps {
    pub general_caps: u64,
    pub per_transport_caps: ibv_odp_caps__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_odp_caps__bindgen_ty_1 {
    pub rc_odp_caps: u32,
    pub uc_odp_caps: u32,
    pub ud_odp_caps: u32,
}
layout!(ibv_odp_caps__bindgen_ty_1, 12, 4, [(rc_odp_caps, 0), (uc_odp_caps, 4), (ud_odp_caps, 8)]);
layout!(ibv_odp_caps, 24, 8, [(general_caps, 0), (per_transport_caps, 8)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_tso_caps {
    pub max_tso: u32,
    pub supported_qpts: u32,
}
layout!(ibv_tso_caps, 8, 4, [(max_tso, 0), (supported_qpts, 4)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_rss_caps {
    pub supported_qpts: u32,
    pub max_rwq_indirection_tables: u32,
    pub max_rwq_indirection_table_size: u32,
    pub rx_hash_fields_mask: u64,
    pub rx_hash_function: u8,
}
layout!(
    ibv_rss_caps,
    32,
    8,
    [
        (supported_qpts, 0),
        (max_rwq_indirection_tables, 4),
        (max_rwq_indirection_table_size, 8),
        (rx_hash_fields_mask, 16),
        (rx_hash_function, 24)
    ]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_packet_pacing_caps {
    pub qp_rate_limit_min: u32,
    pub qp_rate_limit_max: u32,
    pub supported_qpts: u32,
}
layout!(
    ibv_packet_pacing_caps,
    12,
    4,
    [(qp_rate_limit_min, 0), (qp_rate_limit_max, 4), (supported_qpts, 8)]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_tm_caps {
    pub max_rndv_hdr_size: u32,
    pub max_num_tags: u32,
    pub flags: u32,
    pub max_ops: u32,
    pub max_sge: u32,
}
layout!(
    ibv_tm_caps,
    20,
    4,
    [(max_rndv_hdr_size, 0), (max_num_tags, 4), (flags, 8), (max_ops, 12), (max_sge, 16)]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_cq_moderation_caps {
    pub max_cq_count: u16,
    pub max_cq_period: u16,
}
layout!(ibv_cq_moderation_caps, 4, 2, [(max_cq_count, 0), (max_cq_period, 2)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_pci_atomic_caps {
    pub fetch_add: u16,
    pub swap: u16,
    pub compare_swap: u16,
}
layout!(ibv_pci_atomic_caps, 6, 2, [(fetch_add, 0), (swap, 2), (compare_swap, 4)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_device_attr_ex {
    pub orig_attr: ibv_device_attr,
    pub comp_mask: u32,
    pub odp_caps: ibv_odp_caps,
    pub completion_timestamp_mask: u64,
    pub hca_core_clock: u64,
    pub device_cap_flags_ex: u64,
    pub tso_caps: ibv_tso_caps,
    pub rss_caps: ibv_rss_caps,
    pub max_wq_type_rq: u32,
    pub packet_pacing_caps: ibv_packet_pacing_caps,
    pub raw_packet_caps: u32,
    pub tm_caps: ibv_tm_caps,
    pub cq_mod_caps: ibv_cq_moderation_caps,
    pub max_dm_size: u64,
    pub pci_atomic_caps: ibv_pci_atomic_caps,
    pub xrc_odp_caps: u32,
    pub phys_port_cnt_ex: u32,
}
layout!(
    ibv_device_attr_ex,
    400,
    8,
    [
        (orig_attr, 0),
        (comp_mask, 232),
        (odp_caps, 240),
        (completion_timestamp_mask, 264),
        (hca_core_clock, 272),
        (device_cap_flags_ex, 280),
        (tso_caps, 288),
        (rss_caps, 296),
        (max_wq_type_rq, 328),
        (packet_pacing_caps, 332),
        (raw_packet_caps, 344),
        (tm_caps, 348),
        (cq_mod_caps, 368),
        (max_dm_size, 376),
        (pci_atomic_caps, 384),
        (xrc_odp_caps, 392),
        (phys_port_cnt_ex, 396)
    ]
);
pub const IBV_MTU_256: ibv_mtu = 1;
pub const IBV_MTU_512: ibv_mtu = 2;
pub const IBV_MTU_1024: ibv_mtu = 3;
pub const IBV_MTU_2048: ibv_mtu = 4;
pub const IBV_MTU_4096: ibv_mtu = 5;
pub type ibv_mtu = c_uint;
pub const IBV_PORT_NOP: ibv_port_state = 0;
pub const IBV_PORT_DOWN: ibv_port_state = 1;
pub const IBV_PORT_INIT: ibv_port_state = 2;
pub const IBV_PORT_ARMED: ibv_port_state = 3;
pub const IBV_PORT_ACTIVE: ibv_port_state = 4;
pub const IBV_PORT_ACTIVE_DEFER: ibv_port_state = 5;
pub type ibv_port_state = c_uint;
pub const IBV_LINK_LAYER_UNSPECIFIED: _bindgen_ty_13 = 0;
pub const IBV_LINK_LAYER_INFINIBAND: _bindgen_ty_13 = 1;
pub const IBV_LINK_LAYER_ETHERNET: _bindgen_ty_13 = 2;
pub type _bindgen_ty_13 = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_port_attr {
    pub state: ibv_port_state,
    pub max_mtu: ibv_mtu,
    pub active_mtu: ibv_mtu,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
    pub active_speed_ex: u32,
}
layout!(
    ibv_port_attr,
    56,
    4,
    [
        (state, 0),
        (max_mtu, 4),
        (active_mtu, 8),
        (gid_tbl_len, 12),
        (port_cap_flags, 16),
        (max_msg_sz, 20),
        (bad_pkey_cntr, 24),
        (qkey_viol_cntr, 28),
        (pkey_tbl_len, 32),
        (lid, 34),
        (sm_lid, 36),
        (lmc, 38),
        (max_vl_num, 39),
        (sm_sl, 40),
        (subnet_timeout, 41),
        (init_type_reply, 42),
        (active_width, 43),
        (active_speed, 44),
        (phys_state, 45),
        (link_layer, 46),
        (flags, 47),
        (port_cap_flags2, 48),
        (active_speed_ex, 52)
    ]
);
pub const IBV_EVENT_CQ_ERR: ibv_event_type = 0;
pub const IBV_EVENT_QP_FATAL: ibv_event_type = 1;
pub const IBV_EVENT_QP_REQ_ERR: ibv_event_type = 2;
pub const IBV_EVENT_QP_ACCESS_ERR: ibv_event_type = 3;
pub const IBV_EVENT_COMM_EST: ibv_event_type = 4;
pub const IBV_EVENT_SQ_DRAINED: ibv_event_type = 5;
pub const IBV_EVENT_PATH_MIG: ibv_event_type = 6;
pub const IBV_EVENT_PATH_MIG_ERR: ibv_event_type = 7;
pub const IBV_EVENT_DEVICE_FATAL: ibv_event_type = 8;
pub const IBV_EVENT_PORT_ACTIVE: ibv_event_type = 9;
pub const IBV_EVENT_PORT_ERR: ibv_event_type = 10;
pub const IBV_EVENT_LID_CHANGE: ibv_event_type = 11;
pub const IBV_EVENT_PKEY_CHANGE: ibv_event_type = 12;
pub const IBV_EVENT_SM_CHANGE: ibv_event_type = 13;
pub const IBV_EVENT_SRQ_ERR: ibv_event_type = 14;
pub const IBV_EVENT_SRQ_LIMIT_REACHED: ibv_event_type = 15;
pub const IBV_EVENT_QP_LAST_WQE_REACHED: ibv_event_type = 16;
pub const IBV_EVENT_CLIENT_REREGISTER: ibv_event_type = 17;
pub const IBV_EVENT_GID_CHANGE: ibv_event_type = 18;
pub const IBV_EVENT_WQ_FATAL: ibv_event_type = 19;
pub type ibv_event_type = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_async_event {
    pub element: ibv_async_event__bindgen_ty_1,
    pub event_type: ibv_event_type,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_async_event__bindgen_ty_1 {
    pub cq: *mut ibv_cq,
    pub qp: *mut ibv_qp,
    pub srq: *mut ibv_srq,
    pub wq: *mut ibv_wq,
    pub port_num: c_int,
}
layout!(ibv_async_event__bindgen_ty_1, 8, 8, [(cq, 0), (qp, 0), (srq, 0), (wq, 0), (port_num, 0)]);
layout!(ibv_async_event, 16, 8, [(element, 0), (event_type, 8)]);
pub const IBV_WC_SUCCESS: ibv_wc_status = 0;
pub const IBV_WC_LOC_LEN_ERR: ibv_wc_status = 1;
pub const IBV_WC_LOC_QP_OP_ERR: ibv_wc_status = 2;
pub const IBV_WC_LOC_EEC_OP_ERR: ibv_wc_status = 3;
pub const IBV_WC_LOC_PROT_ERR: ibv_wc_status = 4;
pub const IBV_WC_WR_FLUSH_ERR: ibv_wc_status = 5;
pub const IBV_WC_MW_BIND_ERR: ibv_wc_status = 6;
pub const IBV_WC_BAD_RESP_ERR: ibv_wc_status = 7;
pub const IBV_WC_LOC_ACCESS_ERR: ibv_wc_status = 8;
pub const IBV_WC_REM_INV_REQ_ERR: ibv_wc_status = 9;
pub const IBV_WC_REM_ACCESS_ERR: ibv_wc_status = 10;
pub const IBV_WC_REM_OP_ERR: ibv_wc_status = 11;
pub const IBV_WC_RETRY_EXC_ERR: ibv_wc_status = 12;
pub const IBV_WC_RNR_RETRY_EXC_ERR: ibv_wc_status = 13;
pub const IBV_WC_LOC_RDD_VIOL_ERR: ibv_wc_status = 14;
pub const IBV_WC_REM_INV_RD_REQ_ERR: ibv_wc_status = 15;
pub const IBV_WC_REM_ABORT_ERR: ibv_wc_status = 16;
pub const IBV_WC_INV_EECN_ERR: ibv_wc_status = 17;
pub const IBV_WC_INV_EEC_STATE_ERR: ibv_wc_status = 18;
pub const IBV_WC_FATAL_ERR: ibv_wc_status = 19;
pub const IBV_WC_RESP_TIMEOUT_ERR: ibv_wc_status = 20;
pub const IBV_WC_GENERAL_ERR: ibv_wc_status = 21;
pub const IBV_WC_TM_ERR: ibv_wc_status = 22;
pub const IBV_WC_TM_RNDV_INCOMPLETE: ibv_wc_status = 23;
pub type ibv_wc_status = c_uint;
pub const IBV_WC_SEND: ibv_wc_opcode = 0;
pub const IBV_WC_RDMA_WRITE: ibv_wc_opcode = 1;
pub const IBV_WC_RDMA_READ: ibv_wc_opcode = 2;
pub const IBV_WC_COMP_SWAP: ibv_wc_opcode = 3;
pub const IBV_WC_FETCH_ADD: ibv_wc_opcode = 4;
pub const IBV_WC_BIND_MW: ibv_wc_opcode = 5;
pub const IBV_WC_LOCAL_INV: ibv_wc_opcode = 6;
pub const IBV_WC_TSO: ibv_wc_opcode = 7;
pub const IBV_WC_FLUSH: ibv_wc_opcode = 8;
pub const IBV_WC_ATOMIC_WRITE: ibv_wc_opcode = 9;
pub const IBV_WC_RECV: ibv_wc_opcode = 128;
pub const IBV_WC_RECV_RDMA_WITH_IMM: ibv_wc_opcode = 129;
pub const IBV_WC_TM_ADD: ibv_wc_opcode = 130;
pub const IBV_WC_TM_DEL: ibv_wc_opcode = 131;
pub const IBV_WC_TM_SYNC: ibv_wc_opcode = 132;
pub const IBV_WC_TM_RECV: ibv_wc_opcode = 133;
pub const IBV_WC_TM_NO_TAG: ibv_wc_opcode = 134;
pub const IBV_WC_DRIVER1: ibv_wc_opcode = 135;
pub const IBV_WC_DRIVER2: ibv_wc_opcode = 136;
pub const IBV_WC_DRIVER3: ibv_wc_opcode = 137;
pub type ibv_wc_opcode = c_uint;
pub const IBV_WC_EX_WITH_BYTE_LEN: ibv_create_cq_wc_flags = 1;
pub const IBV_WC_EX_WITH_IMM: ibv_create_cq_wc_flags = 2;
pub const IBV_WC_EX_WITH_QP_NUM: ibv_create_cq_wc_flags = 4;
pub const IBV_WC_EX_WITH_SRC_QP: ibv_create_cq_wc_flags = 8;
pub const IBV_WC_EX_WITH_SLID: ibv_create_cq_wc_flags = 16;
pub const IBV_WC_EX_WITH_SL: ibv_create_cq_wc_flags = 32;
pub const IBV_WC_EX_WITH_DLID_PATH_BITS: ibv_create_cq_wc_flags = 64;
pub const IBV_WC_EX_WITH_COMPLETION_TIMESTAMP: ibv_create_cq_wc_flags = 128;
pub const IBV_WC_EX_WITH_CVLAN: ibv_create_cq_wc_flags = 256;
pub const IBV_WC_EX_WITH_FLOW_TAG: ibv_create_cq_wc_flags = 512;
pub const IBV_WC_EX_WITH_TM_INFO: ibv_create_cq_wc_flags = 1024;
pub const IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK: ibv_create_cq_wc_flags = 2048;
pub type ibv_create_cq_wc_flags = c_uint;
pub const IBV_WC_GRH: ibv_wc_flags = 1;
pub const IBV_WC_WITH_IMM: ibv_wc_flags = 2;
pub const IBV_WC_IP_CSUM_OK: ibv_wc_flags = 4;
pub const IBV_WC_WITH_INV: ibv_wc_flags = 8;
pub const IBV_WC_TM_SYNC_REQ: ibv_wc_flags = 16;
pub const IBV_WC_TM_MATCH: ibv_wc_flags = 32;
pub const IBV_WC_TM_DATA_VALID: ibv_wc_flags = 64;
pub type ibv_wc_flags = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_wc {
    pub wr_id: u64,
    pub status: ibv_wc_status,
    pub opcode: ibv_wc_opcode,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub __bindgen_anon_1: ibv_wc__bindgen_ty_1,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_wc__bindgen_ty_1 {
    pub imm_data: __be32,
    pub invalidated_rkey: u32,
}
layout!(ibv_wc__bindgen_ty_1, 4, 4, [(imm_data, 0), (invalidated_rkey, 0)]);
layout!(
    ibv_wc,
    48,
    8,
    [
        (wr_id, 0),
        (status, 8),
        (opcode, 12),
        (vendor_err, 16),
        (byte_len, 20),
        (qp_num, 28),
        (src_qp, 32),
        (wc_flags, 36),
        (pkey_index, 40),
        (slid, 42),
        (sl, 44),
        (dlid_path_bits, 45)
    ]
);
pub const IBV_ACCESS_LOCAL_WRITE: ibv_access_flags = 1;
pub const IBV_ACCESS_REMOTE_WRITE: ibv_access_flags = 2;
pub const IBV_ACCESS_REMOTE_READ: ibv_access_flags = 4;
pub const IBV_ACCESS_REMOTE_ATOMIC: ibv_access_flags = 8;
pub const IBV_ACCESS_MW_BIND: ibv_access_flags = 16;
pub const IBV_ACCESS_ZERO_BASED: ibv_access_flags = 32;
pub const IBV_ACCESS_ON_DEMAND: ibv_access_flags = 64;
pub const IBV_ACCESS_HUGETLB: ibv_access_flags = 128;
pub const IBV_ACCESS_FLUSH_GLOBAL: ibv_access_flags = 256;
pub const IBV_ACCESS_FLUSH_PERSISTENT: ibv_access_flags = 512;
pub const IBV_ACCESS_RELAXED_ORDERING: ibv_access_flags = 1048576;
pub type ibv_access_flags = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}
layout!(ibv_mw_bind_info, 32, 8, [(mr, 0), (addr, 8), (length, 16), (mw_access_flags, 24)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_pd {
    pub context: *mut ibv_context,
    pub handle: u32,
}
layout!(ibv_pd, 16, 8, [(context, 0), (handle, 8)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}
layout!(
    ibv_mr,
    48,
    8,
    [(context, 0), (pd, 8), (addr, 16), (length, 24), (handle, 32), (lkey, 36), (rkey, 40)]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}
layout!(
    ibv_global_route,
    24,
    8,
    [(dgid, 0), (flow_label, 16), (sgid_index, 20), (hop_limit, 21), (traffic_class, 22)]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}
layout!(
    ibv_ah_attr,
    32,
    8,
    [
        (grh, 0),
        (dlid, 24),
        (sl, 26),
        (src_path_bits, 27),
        (static_rate, 28),
        (is_global, 29),
        (port_num, 30)
    ]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_srq_attr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}
layout!(ibv_srq_attr, 12, 4, [(max_wr, 0), (max_sge, 4), (srq_limit, 8)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_srq_init_attr {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
}
layout!(ibv_srq_init_attr, 24, 8, [(srq_context, 0), (attr, 8)]);
pub const IBV_QPT_RC: ibv_qp_type = 2;
pub const IBV_QPT_UC: ibv_qp_type = 3;
pub const IBV_QPT_UD: ibv_qp_type = 4;
pub const IBV_QPT_RAW_PACKET: ibv_qp_type = 8;
pub const IBV_QPT_XRC_SEND: ibv_qp_type = 9;
pub const IBV_QPT_XRC_RECV: ibv_qp_type = 10;
pub const IBV_QPT_DRIVER: ibv_qp_type = 255;
pub type ibv_qp_type = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}
layout!(
    ibv_qp_cap,
    20,
    4,
    [
        (max_send_wr, 0),
        (max_recv_wr, 4),
        (max_send_sge, 8),
        (max_recv_sge, 12),
        (max_inline_data, 16)
    ]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_qp_init_attr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: ibv_qp_type,
    pub sq_sig_all: c_int,
}
layout!(
    ibv_qp_init_attr,
    64,
    8,
    [
        (qp_context, 0),
        (send_cq, 8),
        (recv_cq, 16),
        (srq, 24),
        (cap, 32),
        (qp_type, 52),
        (sq_sig_all, 56)
    ]
);
pub const IBV_QP_INIT_ATTR_PD: ibv_qp_init_attr_mask = 1;
pub const IBV_QP_INIT_ATTR_XRCD: ibv_qp_init_attr_mask = 2;
pub const IBV_QP_INIT_ATTR_CREATE_FLAGS: ibv_qp_init_attr_mask = 4;
pub const IBV_QP_INIT_ATTR_MAX_TSO_HEADER: ibv_qp_init_attr_mask = 8;
pub const IBV_QP_INIT_ATTR_IND_TABLE: ibv_qp_init_attr_mask = 16;
pub const IBV_QP_INIT_ATTR_RX_HASH: ibv_qp_init_attr_mask = 32;
pub const IBV_QP_INIT_ATTR_SEND_OPS_FLAGS: ibv_qp_init_attr_mask = 64;
pub type ibv_qp_init_attr_mask = c_uint;
pub const IBV_QP_EX_WITH_RDMA_WRITE: ibv_qp_create_send_ops_flags = 1;
pub const IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM: ibv_qp_create_send_ops_flags = 2;
pub const IBV_QP_EX_WITH_SEND: ibv_qp_create_send_ops_flags = 4;
pub const IBV_QP_EX_WITH_SEND_WITH_IMM: ibv_qp_create_send_ops_flags = 8;
pub const IBV_QP_EX_WITH_RDMA_READ: ibv_qp_create_send_ops_flags = 16;
pub const IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP: ibv_qp_create_send_ops_flags = 32;
pub const IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD: ibv_qp_create_send_ops_flags = 64;
pub const IBV_QP_EX_WITH_LOCAL_INV: ibv_qp_create_send_ops_flags = 128;
pub const IBV_QP_EX_WITH_BIND_MW: ibv_qp_create_send_ops_flags = 256;
pub const IBV_QP_EX_WITH_SEND_WITH_INV: ibv_qp_create_send_ops_flags = 512;
pub const IBV_QP_EX_WITH_TSO: ibv_qp_create_send_ops_flags = 1024;
pub const IBV_QP_EX_WITH_FLUSH: ibv_qp_create_send_ops_flags = 2048;
pub const IBV_QP_EX_WITH_ATOMIC_WRITE: ibv_qp_create_send_ops_flags = 4096;
pub type ibv_qp_create_send_ops_flags = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_rx_hash_conf {
    pub rx_hash_function: u8,
    pub rx_hash_key_len: u8,
    pub rx_hash_key: *mut u8,
    pub rx_hash_fields_mask: u64,
}
layout!(
    ibv_rx_hash_conf,
    24,
    8,
    [(rx_hash_function, 0), (rx_hash_key_len, 1), (rx_hash_key, 8), (rx_hash_fields_mask, 16)]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_qp_init_attr_ex {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: ibv_qp_type,
    pub sq_sig_all: c_int,
    pub comp_mask: u32,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut ibv_xrcd,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut ibv_rwq_ind_table,
    pub rx_hash_conf: ibv_rx_hash_conf,
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}
layout!(
    ibv_qp_init_attr_ex,
    136,
    8,
    [
        (qp_context, 0),
        (send_cq, 8),
        (recv_cq, 16),
        (srq, 24),
        (cap, 32),
        (qp_type, 52),
        (sq_sig_all, 56),
        (comp_mask, 60),
        (pd, 64),
        (xrcd, 72),
        (create_flags, 80),
        (max_tso_header, 84),
        (rwq_ind_tbl, 88),
        (rx_hash_conf, 96),
        (source_qpn, 120),
        (send_ops_flags, 128)
    ]
);
pub const IBV_QP_STATE: ibv_qp_attr_mask = 1;
pub const IBV_QP_CUR_STATE: ibv_qp_attr_mask = 2;
pub const IBV_QP_EN_SQD_ASYNC_NOTIFY: ibv_qp_attr_mask = 4;
pub const IBV_QP_ACCESS_FLAGS: ibv_qp_attr_mask = 8;
pub const IBV_QP_PKEY_INDEX: ibv_qp_attr_mask = 16;
pub const IBV_QP_PORT: ibv_qp_attr_mask = 32;
pub const IBV_QP_QKEY: ibv_qp_attr_mask = 64;
pub const IBV_QP_AV: ibv_qp_attr_mask = 128;
pub const IBV_QP_PATH_MTU: ibv_qp_attr_mask = 256;
pub const IBV_QP_TIMEOUT: ibv_qp_attr_mask = 512;
pub const IBV_QP_RETRY_CNT: ibv_qp_attr_mask = 1024;
pub const IBV_QP_RNR_RETRY: ibv_qp_attr_mask = 2048;
pub const IBV_QP_RQ_PSN: ibv_qp_attr_mask = 4096;
pub const IBV_QP_MAX_QP_RD_ATOMIC: ibv_qp_attr_mask = 8192;
pub const IBV_QP_ALT_PATH: ibv_qp_attr_mask = 16384;
pub const IBV_QP_MIN_RNR_TIMER: ibv_qp_attr_mask = 32768;
pub const IBV_QP_SQ_PSN: ibv_qp_attr_mask = 65536;
pub const IBV_QP_MAX_DEST_RD_ATOMIC: ibv_qp_attr_mask = 131072;
pub const IBV_QP_PATH_MIG_STATE: ibv_qp_attr_mask = 262144;
pub const IBV_QP_CAP: ibv_qp_attr_mask = 524288;
pub const IBV_QP_DEST_QPN: ibv_qp_attr_mask = 1048576;
pub const IBV_QP_RATE_LIMIT: ibv_qp_attr_mask = 33554432;
pub type ibv_qp_attr_mask = c_uint;
pub const IBV_QPS_RESET: ibv_qp_state = 0;
pub const IBV_QPS_INIT: ibv_qp_state = 1;
pub const IBV_QPS_RTR: ibv_qp_state = 2;
pub const IBV_QPS_RTS: ibv_qp_state = 3;
pub const IBV_QPS_SQD: ibv_qp_state = 4;
pub const IBV_QPS_SQE: ibv_qp_state = 5;
pub const IBV_QPS_ERR: ibv_qp_state = 6;
pub const IBV_QPS_UNKNOWN: ibv_qp_state = 7;
pub type ibv_qp_state = c_uint;
pub type ibv_mig_state = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_qp_attr {
    pub qp_state: ibv_qp_state,
    pub cur_qp_state: ibv_qp_state,
    pub path_mtu: ibv_mtu,
    pub path_mig_state: ibv_mig_state,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: ibv_qp_cap,
    pub ah_attr: ibv_ah_attr,
    pub alt_ah_attr: ibv_ah_attr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}
layout!(
    ibv_qp_attr,
    144,
    8,
    [
        (qp_state, 0),
        (cur_qp_state, 4),
        (path_mtu, 8),
        (path_mig_state, 12),
        (qkey, 16),
        (rq_psn, 20),
        (sq_psn, 24),
        (dest_qp_num, 28),
        (qp_access_flags, 32),
        (cap, 36),
        (ah_attr, 56),
        (alt_ah_attr, 88),
        (pkey_index, 120),
        (alt_pkey_index, 122),
        (en_sqd_async_notify, 124),
        (sq_draining, 125),
        (max_rd_atomic, 126),
        (max_dest_rd_atomic, 127),
        (min_rnr_timer, 128),
        (port_num, 129),
        (timeout, 130),
        (retry_cnt, 131),
        (rnr_retry, 132),
        (alt_port_num, 133),
        (alt_timeout, 134),
        (rate_limit, 136)
    ]
);
pub const IBV_WR_RDMA_WRITE: ibv_wr_opcode = 0;
pub const IBV_WR_RDMA_WRITE_WITH_IMM: ibv_wr_opcode = 1;
pub const IBV_WR_SEND: ibv_wr_opcode = 2;
pub const IBV_WR_SEND_WITH_IMM: ibv_wr_opcode = 3;
pub const IBV_WR_RDMA_READ: ibv_wr_opcode = 4;
pub const IBV_WR_ATOMIC_CMP_AND_SWP: ibv_wr_opcode = 5;
pub const IBV_WR_ATOMIC_FETCH_AND_ADD: ibv_wr_opcode = 6;
pub const IBV_WR_LOCAL_INV: ibv_wr_opcode = 7;
pub const IBV_WR_BIND_MW: ibv_wr_opcode = 8;
pub const IBV_WR_SEND_WITH_INV: ibv_wr_opcode = 9;
pub const IBV_WR_TSO: ibv_wr_opcode = 10;
pub const IBV_WR_DRIVER1: ibv_wr_opcode = 11;
pub const IBV_WR_FLUSH: ibv_wr_opcode = 14;
pub const IBV_WR_ATOMIC_WRITE: ibv_wr_opcode = 15;
pub type ibv_wr_opcode = c_uint;
pub const IBV_SEND_FENCE: ibv_send_flags = 1;
pub const IBV_SEND_SIGNALED: ibv_send_flags = 2;
pub const IBV_SEND_SOLICITED: ibv_send_flags = 4;
pub const IBV_SEND_INLINE: ibv_send_flags = 8;
pub const IBV_SEND_IP_CSUM: ibv_send_flags = 16;
pub type ibv_send_flags = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}
layout!(ibv_sge, 16, 8, [(addr, 0), (length, 8), (lkey, 12)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: ibv_wr_opcode,
    pub send_flags: c_uint,
    pub __bindgen_anon_1: ibv_send_wr__bindgen_ty_1,
    pub wr: ibv_send_wr__bindgen_ty_2,
    pub qp_type: ibv_send_wr__bindgen_ty_3,
    pub __bindgen_anon_2: ibv_send_wr__bindgen_ty_4,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_1 {
    pub imm_data: __be32,
    pub invalidate_rkey: u32,
}
layout!(ibv_send_wr__bindgen_ty_1, 4, 4, [(imm_data, 0), (invalidate_rkey, 0)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_2 {
    pub rdma: ibv_send_wr__bindgen_ty_2__bindgen_ty_1,
    pub atomic: ibv_send_wr__bindgen_ty_2__bindgen_ty_2,
    pub ud: ibv_send_wr__bindgen_ty_2__bindgen_ty_3,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
    pub remote_addr: u64,
    pub rkey: u32,
}
layout!(ibv_send_wr__bindgen_ty_2__bindgen_ty_1, 16, 8, [(remote_addr, 0), (rkey, 8)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_2__bindgen_ty_2 {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}
layout!(
    ibv_send_wr__bindgen_ty_2__bindgen_ty_2,
    32,
    8,
    [(remote_addr, 0), (compare_add, 8), (swap, 16), (rkey, 24)]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}
layout!(
    ibv_send_wr__bindgen_ty_2__bindgen_ty_3,
    16,
    8,
    [(ah, 0), (remote_qpn, 8), (remote_qkey, 12)]
);
layout!(ibv_send_wr__bindgen_ty_2, 32, 8, [(rdma, 0), (atomic, 0), (ud, 0)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_3 {
    pub xrc: ibv_send_wr__bindgen_ty_3__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_3__bindgen_ty_1 {
    pub remote_srqn: u32,
}
layout!(ibv_send_wr__bindgen_ty_3__bindgen_ty_1, 4, 4, [(remote_srqn, 0)]);
layout!(ibv_send_wr__bindgen_ty_3, 4, 4, [(xrc, 0)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_4 {
    pub bind_mw: ibv_send_wr__bindgen_ty_4__bindgen_ty_1,
    pub tso: ibv_send_wr__bindgen_ty_4__bindgen_ty_2,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}
layout!(ibv_send_wr__bindgen_ty_4__bindgen_ty_1, 48, 8, [(mw, 0), (rkey, 8), (bind_info, 16)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_4__bindgen_ty_2 {
    pub hdr: *mut c_void,
    pub hdr_sz: u16,
    pub mss: u16,
}
layout!(ibv_send_wr__bindgen_ty_4__bindgen_ty_2, 16, 8, [(hdr, 0), (hdr_sz, 8), (mss, 10)]);
layout!(ibv_send_wr__bindgen_ty_4, 48, 8, [(bind_mw, 0), (tso, 0)]);
layout!(
    ibv_send_wr,
    128,
    8,
    [
        (wr_id, 0),
        (next, 8),
        (sg_list, 16),
        (num_sge, 24),
        (opcode, 28),
        (send_flags, 32),
        (wr, 40),
        (qp_type, 72)
    ]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}
layout!(ibv_recv_wr, 32, 8, [(wr_id, 0), (next, 8), (sg_list, 16), (num_sge, 24)]);
#[repr(C)]
pub struct ibv_srq {
    pub context: *mut ibv_context,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}
#[cfg(target_arch = "x86_64")]
layout!(
    ibv_srq,
    128,
    8,
    [
        (context, 0),
        (srq_context, 8),
        (pd, 16),
        (handle, 24),
        (mutex, 32),
        (cond, 72),
        (events_completed, 120)
    ]
);
#[cfg(target_arch = "aarch64")]
layout!(
    ibv_srq,
    136,
    8,
    [
        (context, 0),
        (srq_context, 8),
        (pd, 16),
        (handle, 24),
        (mutex, 32),
        (cond, 80),
        (events_completed, 128)
    ]
);
#[repr(C)]
pub struct ibv_qp {
    pub context: *mut ibv_context,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: ibv_qp_state,
    pub qp_type: ibv_qp_type,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}
#[cfg(target_arch = "x86_64")]
layout!(
    ibv_qp,
    160,
    8,
    [
        (context, 0),
        (qp_context, 8),
        (pd, 16),
        (send_cq, 24),
        (recv_cq, 32),
        (srq, 40),
        (handle, 48),
        (qp_num, 52),
        (state, 56),
        (qp_type, 60),
        (mutex, 64),
        (cond, 104),
        (events_completed, 152)
    ]
);
#[cfg(target_arch = "aarch64")]
layout!(
    ibv_qp,
    168,
    8,
    [
        (context, 0),
        (qp_context, 8),
        (pd, 16),
        (send_cq, 24),
        (recv_cq, 32),
        (srq, 40),
        (handle, 48),
        (qp_num, 52),
        (state, 56),
        (qp_type, 60),
        (mutex, 64),
        (cond, 112),
        (events_completed, 160)
    ]
);
#[repr(C)]
pub struct ibv_qp_ex {
    pub qp_base: ibv_qp,
    pub comp_mask: u64,
    pub wr_id: u64,
    pub wr_flags: c_uint,
    pub wr_atomic_cmp_swp: Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp_ex,
            rkey: u32,
            remote_addr: u64,
            compare: u64,
            swap: u64,
        ),
    >,
    pub wr_atomic_fetch_add:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, add: u64)>,
    pub wr_bind_mw: Option<unsafe extern "C" fn()>,
    pub wr_local_inv: Option<unsafe extern "C" fn()>,
    pub wr_rdma_read: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64)>,
    pub wr_rdma_write:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64)>,
    pub wr_rdma_write_imm: Option<
        unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, imm_data: __be32),
    >,
    pub wr_send: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex)>,
    pub wr_send_imm: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, imm_data: __be32)>,
    pub wr_send_inv: Option<unsafe extern "C" fn()>,
    pub wr_send_tso: Option<unsafe extern "C" fn()>,
    pub wr_set_ud_addr: Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp_ex,
            ah: *mut ibv_ah,
            remote_qpn: u32,
            remote_qkey: u32,
        ),
    >,
    pub wr_set_xrc_srqn: Option<unsafe extern "C" fn()>,
    pub wr_set_inline_data:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize)>,
    pub wr_set_inline_data_list: Option<unsafe extern "C" fn()>,
    pub wr_set_sge:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32)>,
    pub wr_set_sge_list:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, num_sge: usize, sg_list: *const ibv_sge)>,
    pub wr_start: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex)>,
    pub wr_complete: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex) -> c_int>,
    pub wr_abort: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex)>,
    pub wr_atomic_write: Option<unsafe extern "C" fn()>,
    pub wr_flush: Option<unsafe extern "C" fn()>,
}
#[cfg(target_arch = "x86_64")]
layout!(
    ibv_qp_ex,
    360,
    8,
    [
        (qp_base, 0),
        (comp_mask, 160),
        (wr_id, 168),
        (wr_flags, 176),
        (wr_atomic_cmp_swp, 184),
        (wr_atomic_fetch_add, 192),
        (wr_bind_mw, 200),
        (wr_local_inv, 208),
        (wr_rdma_read, 216),
        (wr_rdma_write, 224),
        (wr_rdma_write_imm, 232),
        (wr_send, 240),
        (wr_send_imm, 248),
        (wr_send_inv, 256),
        (wr_send_tso, 264),
        (wr_set_ud_addr, 272),
        (wr_set_xrc_srqn, 280),
        (wr_set_inline_data, 288),
        (wr_set_inline_data_list, 296),
        (wr_set_sge, 304),
        (wr_set_sge_list, 312),
        (wr_start, 320),
        (wr_complete, 328),
        (wr_abort, 336),
        (wr_atomic_write, 344),
        (wr_flush, 352)
    ]
);
#[cfg(target_arch = "aarch64")]
layout!(
    ibv_qp_ex,
    368,
    8,
    [
        (qp_base, 0),
        (comp_mask, 168),
        (wr_id, 176),
        (wr_flags, 184),
        (wr_atomic_cmp_swp, 192),
        (wr_atomic_fetch_add, 200),
        (wr_bind_mw, 208),
        (wr_local_inv, 216),
        (wr_rdma_read, 224),
        (wr_rdma_write, 232),
        (wr_rdma_write_imm, 240),
        (wr_send, 248),
        (wr_send_imm, 256),
        (wr_send_inv, 264),
        (wr_send_tso, 272),
        (wr_set_ud_addr, 280),
        (wr_set_xrc_srqn, 288),
        (wr_set_inline_data, 296),
        (wr_set_inline_data_list, 304),
        (wr_set_sge, 312),
        (wr_set_sge_list, 320),
        (wr_start, 328),
        (wr_complete, 336),
        (wr_abort, 344),
        (wr_atomic_write, 352),
        (wr_flush, 360)
    ]
);
pub type ibv_qp_to_qp_ex = unsafe extern "C" fn(qp: *mut ibv_qp) -> *mut ibv_qp_ex;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_comp_channel {
    pub context: *mut ibv_context,
    pub fd: c_int,
    pub refcnt: c_int,
}
layout!(ibv_comp_channel, 16, 8, [(context, 0), (fd, 8), (refcnt, 12)]);
#[repr(C)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}
#[cfg(target_arch = "x86_64")]
layout!(
    ibv_cq,
    128,
    8,
    [
        (context, 0),
        (channel, 8),
        (cq_context, 16),
        (handle, 24),
        (cqe, 28),
        (mutex, 32),
        (cond, 72),
        (comp_events_completed, 120),
        (async_events_completed, 124)
    ]
);
#[cfg(target_arch = "aarch64")]
layout!(
    ibv_cq,
    136,
    8,
    [
        (context, 0),
        (channel, 8),
        (cq_context, 16),
        (handle, 24),
        (cqe, 28),
        (mutex, 32),
        (cond, 80),
        (comp_events_completed, 128),
        (async_events_completed, 132)
    ]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_poll_cq_attr {
    pub comp_mask: u32,
}
layout!(ibv_poll_cq_attr, 4, 4, [(comp_mask, 0)]);
#[repr(C)]
pub struct ibv_cq_ex {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
    pub comp_mask: u32,
    pub status: ibv_wc_status,
    pub wr_id: u64,
    pub start_poll:
        Option<unsafe extern "C" fn(current: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int>,
    pub next_poll: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> c_int>,
    pub end_poll: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex)>,
    pub read_opcode: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> ibv_wc_opcode>,
    pub read_vendor_err: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
    pub read_byte_len: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
    pub read_imm_data: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> __be32>,
    pub read_qp_num: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
    pub read_src_qp: Option<unsafe extern "C" fn()>,
    pub read_wc_flags: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> c_uint>,
    pub read_slid: Option<unsafe extern "C" fn()>,
    pub read_sl: Option<unsafe extern "C" fn()>,
    pub read_dlid_path_bits: Option<unsafe extern "C" fn()>,
    pub read_completion_ts: Option<unsafe extern "C" fn()>,
    pub read_cvlan: Option<unsafe extern "C" fn()>,
    pub read_flow_tag: Option<unsafe extern "C" fn()>,
    pub read_tm_info: Option<unsafe extern "C" fn()>,
    pub read_completion_wallclock_ns: Option<unsafe extern "C" fn()>,
}
#[cfg(target_arch = "x86_64")]
layout!(
    ibv_cq_ex,
    288,
    8,
    [
        (context, 0),
        (channel, 8),
        (cq_context, 16),
        (handle, 24),
        (cqe, 28),
        (mutex, 32),
        (cond, 72),
        (comp_events_completed, 120),
        (async_events_completed, 124),
        (comp_mask, 128),
        (status, 132),
        (wr_id, 136),
        (start_poll, 144),
        (next_poll, 152),
        (end_poll, 160),
        (read_opcode, 168),
        (read_vendor_err, 176),
        (read_byte_len, 184),
        (read_imm_data, 192),
        (read_qp_num, 200),
        (read_src_qp, 208),
        (read_wc_flags, 216),
        (read_slid, 224),
        (read_sl, 232),
        (read_dlid_path_bits, 240),
        (read_completion_ts, 248),
        (read_cvlan, 256),
        (read_flow_tag, 264),
        (read_tm_info, 272),
        (read_completion_wallclock_ns, 280)
    ]
);
#[cfg(target_arch = "aarch64")]
layout!(
    ibv_cq_ex,
    296,
    8,
    [
        (context, 0),
        (channel, 8),
        (cq_context, 16),
        (handle, 24),
        (cqe, 28),
        (mutex, 32),
        (cond, 80),
        (comp_events_completed, 128),
        (async_events_completed, 132),
        (comp_mask, 136),
        (status, 140),
        (wr_id, 144),
        (start_poll, 152),
        (next_poll, 160),
        (end_poll, 168),
        (read_opcode, 176),
        (read_vendor_err, 184),
        (read_byte_len, 192),
        (read_imm_data, 200),
        (read_qp_num, 208),
        (read_src_qp, 216),
        (read_wc_flags, 224),
        (read_slid, 232),
        (read_sl, 240),
        (read_dlid_path_bits, 248),
        (read_completion_ts, 256),
        (read_cvlan, 264),
        (read_flow_tag, 272),
        (read_tm_info, 280),
        (read_completion_wallclock_ns, 288)
    ]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct _ibv_device_ops {
    pub _dummy1:
        Option<unsafe extern "C" fn(device: *mut ibv_device, cmd_fd: c_int) -> *mut ibv_context>,
    pub _dummy2: Option<unsafe extern "C" fn(context: *mut ibv_context)>,
}
layout!(_ibv_device_ops, 16, 8, [(_dummy1, 0), (_dummy2, 8)]);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_device {
    pub _ops: _ibv_device_ops,
    pub node_type: ibv_node_type,
    pub transport_type: ibv_transport_type,
    pub name: [c_char; 64usize],
    pub dev_name: [c_char; 64usize],
    pub dev_path: [c_char; 256usize],
    pub ibdev_path: [c_char; 256usize],
}
layout!(
    ibv_device,
    664,
    8,
    [
        (_ops, 0),
        (node_type, 16),
        (transport_type, 20),
        (name, 24),
        (dev_name, 88),
        (dev_path, 152),
        (ibdev_path, 408)
    ]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct _compat_ibv_port_attr {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_context_ops {
    pub _compat_query_device: Option<unsafe extern "C" fn()>,
    pub _compat_query_port: Option<unsafe extern "C" fn()>,
    pub _compat_alloc_pd: Option<unsafe extern "C" fn()>,
    pub _compat_dealloc_pd: Option<unsafe extern "C" fn()>,
    pub _compat_reg_mr: Option<unsafe extern "C" fn()>,
    pub _compat_rereg_mr: Option<unsafe extern "C" fn()>,
    pub _compat_dereg_mr: Option<unsafe extern "C" fn()>,
    pub alloc_mw: Option<unsafe extern "C" fn()>,
    pub bind_mw: Option<unsafe extern "C" fn()>,
    pub dealloc_mw: Option<unsafe extern "C" fn()>,
    pub _compat_create_cq: Option<unsafe extern "C" fn()>,
    pub poll_cq:
        Option<unsafe extern "C" fn(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int>,
    pub req_notify_cq:
        Option<unsafe extern "C" fn(cq: *mut ibv_cq, solicited_only: c_int) -> c_int>,
    pub _compat_cq_event: Option<unsafe extern "C" fn()>,
    pub _compat_resize_cq: Option<unsafe extern "C" fn()>,
    pub _compat_destroy_cq: Option<unsafe extern "C" fn()>,
    pub _compat_create_srq: Option<unsafe extern "C" fn()>,
    pub _compat_modify_srq: Option<unsafe extern "C" fn()>,
    pub _compat_query_srq: Option<unsafe extern "C" fn()>,
    pub _compat_destroy_srq: Option<unsafe extern "C" fn()>,
    pub post_srq_recv: Option<
        unsafe extern "C" fn(
            srq: *mut ibv_srq,
            recv_wr: *mut ibv_recv_wr,
            bad_recv_wr: *mut *mut ibv_recv_wr,
        ) -> c_int,
    >,
    pub _compat_create_qp: Option<unsafe extern "C" fn()>,
    pub _compat_query_qp: Option<unsafe extern "C" fn()>,
    pub _compat_modify_qp: Option<unsafe extern "C" fn()>,
    pub _compat_destroy_qp: Option<unsafe extern "C" fn()>,
    pub post_send: Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp,
            wr: *mut ibv_send_wr,
            bad_wr: *mut *mut ibv_send_wr,
        ) -> c_int,
    >,
    pub post_recv: Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp,
            wr: *mut ibv_recv_wr,
            bad_wr: *mut *mut ibv_recv_wr,
        ) -> c_int,
    >,
    pub _compat_create_ah: Option<unsafe extern "C" fn()>,
    pub _compat_destroy_ah: Option<unsafe extern "C" fn()>,
    pub _compat_attach_mcast: Option<unsafe extern "C" fn()>,
    pub _compat_detach_mcast: Option<unsafe extern "C" fn()>,
    pub _compat_async_event: Option<unsafe extern "C" fn()>,
}
layout!(
    ibv_context_ops,
    256,
    8,
    [
        (_compat_query_device, 0),
        (_compat_query_port, 8),
        (_compat_alloc_pd, 16),
        (_compat_dealloc_pd, 24),
        (_compat_reg_mr, 32),
        (_compat_rereg_mr, 40),
        (_compat_dereg_mr, 48),
        (alloc_mw, 56),
        (bind_mw, 64),
        (dealloc_mw, 72),
        (_compat_create_cq, 80),
        (poll_cq, 88),
        (req_notify_cq, 96),
        (_compat_cq_event, 104),
        (_compat_resize_cq, 112),
        (_compat_destroy_cq, 120),
        (_compat_create_srq, 128),
        (_compat_modify_srq, 136),
        (_compat_query_srq, 144),
        (_compat_destroy_srq, 152),
        (post_srq_recv, 160),
        (_compat_create_qp, 168),
        (_compat_query_qp, 176),
        (_compat_modify_qp, 184),
        (_compat_destroy_qp, 192),
        (post_send, 200),
        (post_recv, 208),
        (_compat_create_ah, 216),
        (_compat_destroy_ah, 224),
        (_compat_attach_mcast, 232),
        (_compat_detach_mcast, 240),
        (_compat_async_event, 248)
    ]
);
#[repr(C)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: pthread_mutex_t,
    pub abi_compat: *mut c_void,
}
#[cfg(target_arch = "x86_64")]
layout!(
    ibv_context,
    328,
    8,
    [
        (device, 0),
        (ops, 8),
        (cmd_fd, 264),
        (async_fd, 268),
        (num_comp_vectors, 272),
        (mutex, 280),
        (abi_compat, 320)
    ]
);
#[cfg(target_arch = "aarch64")]
layout!(
    ibv_context,
    336,
    8,
    [
        (device, 0),
        (ops, 8),
        (cmd_fd, 264),
        (async_fd, 268),
        (num_comp_vectors, 272),
        (mutex, 280),
        (abi_compat, 328)
    ]
);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_cq_init_attr_ex {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut ibv_comp_channel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut ibv_pd,
}
layout!(
    ibv_cq_init_attr_ex,
    56,
    8,
    [
        (cqe, 0),
        (cq_context, 8),
        (channel, 16),
        (comp_vector, 24),
        (wc_flags, 32),
        (comp_mask, 40),
        (flags, 44),
        (parent_domain, 48)
    ]
);
#[repr(C)]
pub struct verbs_context {
    pub query_port: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u8,
            port_attr: *mut ibv_port_attr,
            port_attr_len: usize,
        ) -> c_int,
    >,
    pub advise_mr: Option<unsafe extern "C" fn()>,
    pub alloc_null_mr: Option<unsafe extern "C" fn()>,
    pub read_counters: Option<unsafe extern "C" fn()>,
    pub attach_counters_point_flow: Option<unsafe extern "C" fn()>,
    pub create_counters: Option<unsafe extern "C" fn()>,
    pub destroy_counters: Option<unsafe extern "C" fn()>,
    pub reg_dm_mr: Option<unsafe extern "C" fn()>,
    pub alloc_dm: Option<unsafe extern "C" fn()>,
    pub free_dm: Option<unsafe extern "C" fn()>,
    pub modify_flow_action_esp: Option<unsafe extern "C" fn()>,
    pub destroy_flow_action: Option<unsafe extern "C" fn()>,
    pub create_flow_action_esp: Option<unsafe extern "C" fn()>,
    pub modify_qp_rate_limit: Option<unsafe extern "C" fn()>,
    pub alloc_parent_domain: Option<unsafe extern "C" fn()>,
    pub dealloc_td: Option<unsafe extern "C" fn()>,
    pub alloc_td: Option<unsafe extern "C" fn()>,
    pub modify_cq: Option<unsafe extern "C" fn()>,
    pub post_srq_ops: Option<unsafe extern "C" fn()>,
    pub destroy_rwq_ind_table: Option<unsafe extern "C" fn()>,
    pub create_rwq_ind_table: Option<unsafe extern "C" fn()>,
    pub destroy_wq: Option<unsafe extern "C" fn()>,
    pub modify_wq: Option<unsafe extern "C" fn()>,
    pub create_wq: Option<unsafe extern "C" fn()>,
    pub query_rt_values: Option<unsafe extern "C" fn()>,
    pub create_cq_ex: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            init_attr: *mut ibv_cq_init_attr_ex,
        ) -> *mut ibv_cq_ex,
    >,
    pub priv_: *mut verbs_ex_private,
    pub query_device_ex: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            input: *const ibv_query_device_ex_input,
            attr: *mut ibv_device_attr_ex,
            attr_size: usize,
        ) -> c_int,
    >,
    pub ibv_destroy_flow: Option<unsafe extern "C" fn()>,
    pub ABI_placeholder2: Option<unsafe extern "C" fn()>,
    pub ibv_create_flow: Option<unsafe extern "C" fn()>,
    pub ABI_placeholder1: Option<unsafe extern "C" fn()>,
    pub open_qp: Option<unsafe extern "C" fn()>,
    pub create_qp_ex: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            qp_init_attr_ex: *mut ibv_qp_init_attr_ex,
        ) -> *mut ibv_qp,
    >,
    pub get_srq_num: Option<unsafe extern "C" fn()>,
    pub create_srq_ex: Option<unsafe extern "C" fn()>,
    pub open_xrcd: Option<unsafe extern "C" fn()>,
    pub close_xrcd: Option<unsafe extern "C" fn()>,
    pub _ABI_placeholder3: u64,
    pub sz: usize,
    pub context: ibv_context,
}
#[cfg(target_arch = "x86_64")]
layout!(
    verbs_context,
    648,
    8,
    [
        (query_port, 0),
        (advise_mr, 8),
        (alloc_null_mr, 16),
        (read_counters, 24),
        (attach_counters_point_flow, 32),
        (create_counters, 40),
        (destroy_counters, 48),
        (reg_dm_mr, 56),
        (alloc_dm, 64),
        (free_dm, 72),
        (modify_flow_action_esp, 80),
        (destroy_flow_action, 88),
        (create_flow_action_esp, 96),
        (modify_qp_rate_limit, 104),
        (alloc_parent_domain, 112),
        (dealloc_td, 120),
        (alloc_td, 128),
        (modify_cq, 136),
        (post_srq_ops, 144),
        (destroy_rwq_ind_table, 152),
        (create_rwq_ind_table, 160),
        (destroy_wq, 168),
        (modify_wq, 176),
        (create_wq, 184),
        (query_rt_values, 192),
        (create_cq_ex, 200),
        (priv_, 208),
        (query_device_ex, 216),
        (ibv_destroy_flow, 224),
        (ABI_placeholder2, 232),
        (ibv_create_flow, 240),
        (ABI_placeholder1, 248),
        (open_qp, 256),
        (create_qp_ex, 264),
        (get_srq_num, 272),
        (create_srq_ex, 280),
        (open_xrcd, 288),
        (close_xrcd, 296),
        (_ABI_placeholder3, 304),
        (sz, 312),
        (context, 320)
    ]
);
#[cfg(target_arch = "aarch64")]
layout!(
    verbs_context,
    656,
    8,
    [
        (query_port, 0),
        (advise_mr, 8),
        (alloc_null_mr, 16),
        (read_counters, 24),
        (attach_counters_point_flow, 32),
        (create_counters, 40),
        (destroy_counters, 48),
        (reg_dm_mr, 56),
        (alloc_dm, 64),
        (free_dm, 72),
        (modify_flow_action_esp, 80),
        (destroy_flow_action, 88),
        (create_flow_action_esp, 96),
        (modify_qp_rate_limit, 104),
        (alloc_parent_domain, 112),
        (dealloc_td, 120),
        (alloc_td, 128),
        (modify_cq, 136),
        (post_srq_ops, 144),
        (destroy_rwq_ind_table, 152),
        (create_rwq_ind_table, 160),
        (destroy_wq, 168),
        (modify_wq, 176),
        (create_wq, 184),
        (query_rt_values, 192),
        (create_cq_ex, 200),
        (priv_, 208),
        (query_device_ex, 216),
        (ibv_destroy_flow, 224),
        (ABI_placeholder2, 232),
        (ibv_create_flow, 240),
        (ABI_placeholder1, 248),
        (open_qp, 256),
        (create_qp_ex, 264),
        (get_srq_num, 272),
        (create_srq_ex, 280),
        (open_xrcd, 288),
        (close_xrcd, 296),
        (_ABI_placeholder3, 304),
        (sz, 312),
        (context, 320)
    ]
);
pub type ibv_get_device_list =
    unsafe extern "C" fn(num_devices: *mut c_int) -> *mut *mut ibv_device;
pub type ibv_free_device_list = unsafe extern "C" fn(list: *mut *mut ibv_device);
pub type ibv_get_device_name = unsafe extern "C" fn(device: *mut ibv_device) -> *const c_char;
pub type ibv_open_device = unsafe extern "C" fn(device: *mut ibv_device) -> *mut ibv_context;
pub type ibv_close_device = unsafe extern "C" fn(context: *mut ibv_context) -> c_int;
pub type ibv_get_async_event =
    unsafe extern "C" fn(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int;
pub type ibv_ack_async_event = unsafe extern "C" fn(event: *mut ibv_async_event);
pub type ibv_query_device =
    unsafe extern "C" fn(context: *mut ibv_context, device_attr: *mut ibv_device_attr) -> c_int;
pub type ibv_query_port = unsafe extern "C" fn(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut _compat_ibv_port_attr,
) -> c_int;
pub type _ibv_query_gid_table = unsafe extern "C" fn(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize;
pub type ibv_alloc_pd = unsafe extern "C" fn(context: *mut ibv_context) -> *mut ibv_pd;
pub type ibv_dealloc_pd = unsafe extern "C" fn(pd: *mut ibv_pd) -> c_int;
pub type ibv_reg_mr_iova2 = unsafe extern "C" fn(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr;
pub type ibv_reg_mr = unsafe extern "C" fn(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr;
pub type ibv_reg_dmabuf_mr = unsafe extern "C" fn(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr;
pub type ibv_dereg_mr = unsafe extern "C" fn(mr: *mut ibv_mr) -> c_int;
pub type ibv_create_comp_channel =
    unsafe extern "C" fn(context: *mut ibv_context) -> *mut ibv_comp_channel;
pub type ibv_destroy_comp_channel = unsafe extern "C" fn(channel: *mut ibv_comp_channel) -> c_int;
pub type ibv_create_cq = unsafe extern "C" fn(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq;
pub type ibv_destroy_cq = unsafe extern "C" fn(cq: *mut ibv_cq) -> c_int;
pub type ibv_get_cq_event = unsafe extern "C" fn(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int;
pub type ibv_ack_cq_events = unsafe extern "C" fn(cq: *mut ibv_cq, nevents: c_uint);
pub type ibv_create_srq =
    unsafe extern "C" fn(pd: *mut ibv_pd, srq_init_attr: *mut ibv_srq_init_attr) -> *mut ibv_srq;
pub type ibv_destroy_srq = unsafe extern "C" fn(srq: *mut ibv_srq) -> c_int;
pub type ibv_create_qp =
    unsafe extern "C" fn(pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
pub type ibv_modify_qp =
    unsafe extern "C" fn(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int;
pub type ibv_destroy_qp = unsafe extern "C" fn(qp: *mut ibv_qp) -> c_int;
pub type ibv_create_ah =
    unsafe extern "C" fn(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
pub type ibv_destroy_ah = unsafe extern "C" fn(ah: *mut ibv_ah) -> c_int;
#[repr(C)]
pub struct ibv_ah {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct ibv_mw {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct ibv_rwq_ind_table {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct ibv_wq {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct ibv_xrcd {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct verbs_ex_private {
    _unused: [u8; 0],
}
