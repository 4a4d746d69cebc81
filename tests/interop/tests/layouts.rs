//! fabbench's structures against those that `rdma-sys` makes from the installed headers.
//!
//! Prefix-equal: every field that both have lies at the same place, and fabbench's structure is at
//! least as long. rdma-core lets structures grow at their end, so fabbench's newer headers may have
//! more; `verbs_context` grows at its front and is measured from its end.

use std::mem::{align_of, offset_of, size_of};

use fabbench::transport::verbs::ffi;

/// Compares `field` (or `ours = theirs`, where the crates chose other names) of a structure.
macro_rules! prefix_equal {
    ($name:ident { $($ours:ident $(= $theirs:ident)?),* $(,)? }) => {
        #[test]
        fn $name() {
            $(
                assert_eq!(
                    offset_of!(ffi::$name, $ours),
                    prefix_equal!(@theirs $name $ours $($theirs)?),
                    "{}::{}", stringify!($name), stringify!($ours),
                );
            )*
            assert_eq!(align_of::<ffi::$name>(), align_of::<rdma_sys::$name>());
            let (ours, theirs) = (size_of::<ffi::$name>(), size_of::<rdma_sys::$name>());
            assert!(ours >= theirs, "{ours} bytes here, {theirs} there");
        }
    };
    (@theirs $name:ident $ours:ident) => { offset_of!(rdma_sys::$name, $ours) };
    (@theirs $name:ident $ours:ident $theirs:ident) => { offset_of!(rdma_sys::$name, $theirs) };
}

prefix_equal!(ibv_gid { raw, global });
prefix_equal!(ibv_device_attr {
    fw_ver,
    node_guid,
    sys_image_guid,
    max_mr_size,
    page_size_cap,
    vendor_id,
    vendor_part_id,
    hw_ver,
    max_qp,
    max_qp_wr,
    device_cap_flags,
    max_sge,
    max_sge_rd,
    max_cq,
    max_cqe,
    max_mr,
    max_pd,
    max_qp_rd_atom,
    max_ee_rd_atom,
    max_res_rd_atom,
    max_qp_init_rd_atom,
    max_ee_init_rd_atom,
    atomic_cap,
    max_ee,
    max_rdd,
    max_mw,
    max_raw_ipv6_qp,
    max_raw_ethy_qp,
    max_mcast_grp,
    max_mcast_qp_attach,
    max_total_mcast_qp_attach,
    max_ah,
    max_fmr,
    max_map_per_fmr,
    max_srq,
    max_srq_wr,
    max_srq_sge,
    max_pkeys,
    local_ca_ack_delay,
    phys_port_cnt,
});
prefix_equal!(ibv_device_attr_ex {
    orig_attr,
    comp_mask,
    odp_caps,
    completion_timestamp_mask,
    hca_core_clock,
    device_cap_flags_ex,
    tso_caps,
    rss_caps,
    max_wq_type_rq,
    packet_pacing_caps,
    raw_packet_caps,
    tm_caps,
    cq_mod_caps,
    max_dm_size,
    pci_atomic_caps,
    xrc_odp_caps,
    phys_port_cnt_ex,
});
prefix_equal!(ibv_port_attr {
    state,
    max_mtu,
    active_mtu,
    gid_tbl_len,
    port_cap_flags,
    max_msg_sz,
    bad_pkey_cntr,
    qkey_viol_cntr,
    pkey_tbl_len,
    lid,
    sm_lid,
    lmc,
    max_vl_num,
    sm_sl,
    subnet_timeout,
    init_type_reply,
    active_width,
    active_speed,
    phys_state,
    link_layer,
    flags,
    port_cap_flags2,
});
prefix_equal!(ibv_async_event { element, event_type });
prefix_equal!(ibv_wc {
    wr_id, status, opcode, vendor_err, byte_len,
    __bindgen_anon_1 = imm_data_invalidated_rkey_union,
    qp_num, src_qp, wc_flags, pkey_index, slid, sl, dlid_path_bits,
});
prefix_equal!(ibv_pd { context, handle });
prefix_equal!(ibv_mr { context, pd, addr, length, handle, lkey, rkey });
prefix_equal!(ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class });
prefix_equal!(ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num });
prefix_equal!(ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data });
prefix_equal!(ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all });
prefix_equal!(ibv_qp_attr {
    qp_state,
    cur_qp_state,
    path_mtu,
    path_mig_state,
    qkey,
    rq_psn,
    sq_psn,
    dest_qp_num,
    qp_access_flags,
    cap,
    ah_attr,
    alt_ah_attr,
    pkey_index,
    alt_pkey_index,
    en_sqd_async_notify,
    sq_draining,
    max_rd_atomic,
    max_dest_rd_atomic,
    min_rnr_timer,
    port_num,
    timeout,
    retry_cnt,
    rnr_retry,
    alt_port_num,
    alt_timeout,
    rate_limit,
});
prefix_equal!(ibv_sge { addr, length, lkey });
prefix_equal!(ibv_send_wr {
    wr_id, next, sg_list, num_sge, opcode, send_flags,
    __bindgen_anon_1 = imm_data_invalidated_rkey_union,
    wr, qp_type, __bindgen_anon_2 = bind_mw_tso_union,
});
prefix_equal!(ibv_recv_wr { wr_id, next, sg_list, num_sge });
prefix_equal!(ibv_qp {
    context,
    qp_context,
    pd,
    send_cq,
    recv_cq,
    srq,
    handle,
    qp_num,
    state,
    qp_type,
    mutex,
    cond,
    events_completed,
});
prefix_equal!(ibv_comp_channel { context, fd, refcnt });
prefix_equal!(ibv_cq {
    context,
    channel,
    cq_context,
    handle,
    cqe,
    mutex,
    cond,
    comp_events_completed,
    async_events_completed,
});
prefix_equal!(ibv_device { _ops, node_type, transport_type, name, dev_name, dev_path, ibdev_path });
prefix_equal!(ibv_context_ops {
    alloc_mw,
    bind_mw,
    dealloc_mw,
    poll_cq,
    req_notify_cq,
    post_srq_recv,
    post_send,
    post_recv,
});
prefix_equal!(ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat });

/// Where a field of `verbs_context` lies before the context at its end.
macro_rules! before_the_context {
    ($($field:ident),*) => {
        #[test]
        fn verbs_context() {
            $(
                let ours = offset_of!(ffi::verbs_context, context)
                    - offset_of!(ffi::verbs_context, $field);
                let theirs = offset_of!(rdma_sys::verbs_context, context)
                    - offset_of!(rdma_sys::verbs_context, $field);
                assert_eq!(ours, theirs, "verbs_context::{}", stringify!($field));
            )*
        }
    };
}

before_the_context!(query_port, advise_mr, create_cq_ex, query_device_ex, create_qp_ex, sz);
