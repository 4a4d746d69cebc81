//! Posting by `ibv_wr_*`: one call a part of a request, straight into the driver, beside the classic
//! list of requests.

use std::ptr::NonNull;

use super::ffi;

/// What a work request goes through. Resolved once: the loop asks nothing.
pub(super) struct ExtendedSends {
    raw: NonNull<ffi::ibv_qp_ex>,
    start: Call,
    complete: unsafe extern "C" fn(*mut ffi::ibv_qp_ex) -> i32,
    abort: Call,
    set_sge: unsafe extern "C" fn(*mut ffi::ibv_qp_ex, u32, u64, u32),
    set_sges: unsafe extern "C" fn(*mut ffi::ibv_qp_ex, usize, *const ffi::ibv_sge),
    set_inline: unsafe extern "C" fn(*mut ffi::ibv_qp_ex, *mut std::ffi::c_void, usize),
}

type Call = unsafe extern "C" fn(*mut ffi::ibv_qp_ex);

/// Operations that a queue pair shall be able to post.
pub(super) fn operations(kind: ffi::ibv_qp_type, atomics: bool) -> u64 {
    let sends = ffi::IBV_QP_EX_WITH_SEND | ffi::IBV_QP_EX_WITH_SEND_WITH_IMM;
    let writes = ffi::IBV_QP_EX_WITH_RDMA_WRITE | ffi::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    let atomic = match atomics {
        true => ffi::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | ffi::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
        false => 0,
    };
    u64::from(match kind {
        ffi::IBV_QPT_RC => sends | writes | ffi::IBV_QP_EX_WITH_RDMA_READ | atomic,
        ffi::IBV_QPT_UC => sends | writes,
        _ => sends,
    })
}

impl ExtendedSends {
    /// Of an extended queue pair; none where the driver lacks a call that every request needs.
    ///
    /// # Safety
    /// `raw` is alive for as long as the value is used.
    pub unsafe fn of(raw: NonNull<ffi::ibv_qp_ex>) -> Option<ExtendedSends> {
        // SAFETY: alive, by contract.
        let calls = unsafe { raw.as_ref() };
        Some(ExtendedSends {
            raw,
            start: calls.wr_start?,
            complete: calls.wr_complete?,
            abort: calls.wr_abort?,
            set_sge: calls.wr_set_sge?,
            set_sges: calls.wr_set_sge_list?,
            set_inline: calls.wr_set_inline_data?,
        })
    }

    /// Posts a list of requests, all of them or none; an errno, 0 when they are posted.
    ///
    /// # Safety
    /// As for [`super::qp::QueuePair::post_send`].
    #[inline]
    pub unsafe fn post(&self, first: *mut ffi::ibv_send_wr, datagrams: bool) -> i32 {
        let raw = self.raw.as_ptr();
        // SAFETY: the queue pair is alive, and the list valid by contract.
        unsafe {
            (self.start)(raw);
            let mut next = first.cast_const();
            while let Some(request) = next.as_ref() {
                if !self.build(request, datagrams) {
                    (self.abort)(raw);
                    return libc::EOPNOTSUPP;
                }
                next = request.next;
            }
            (self.complete)(raw)
        }
    }

    /// One request; false where the driver cannot post its operation.
    ///
    /// # Safety
    /// As for [`ExtendedSends::post`], between its start and its end.
    #[inline]
    unsafe fn build(&self, request: &ffi::ibv_send_wr, datagrams: bool) -> bool {
        let raw = self.raw.as_ptr();
        // SAFETY: alive; the request is valid, and the fields of its unions are those of its
        // operation.
        unsafe {
            (*raw).wr_id = request.wr_id;
            (*raw).wr_flags = request.send_flags;
            let begun = match request.opcode {
                ffi::IBV_WR_SEND => (*raw).wr_send.map(|call| call(raw)),
                ffi::IBV_WR_SEND_WITH_IMM => {
                    let immediate = request.__bindgen_anon_1.imm_data;
                    (*raw).wr_send_imm.map(|call| call(raw, immediate))
                }
                ffi::IBV_WR_RDMA_WRITE => {
                    let to = request.wr.rdma;
                    (*raw).wr_rdma_write.map(|call| call(raw, to.rkey, to.remote_addr))
                }
                ffi::IBV_WR_RDMA_WRITE_WITH_IMM => {
                    let (to, immediate) = (request.wr.rdma, request.__bindgen_anon_1.imm_data);
                    let call = (*raw).wr_rdma_write_imm;
                    call.map(|call| call(raw, to.rkey, to.remote_addr, immediate))
                }
                ffi::IBV_WR_RDMA_READ => {
                    let from = request.wr.rdma;
                    (*raw).wr_rdma_read.map(|call| call(raw, from.rkey, from.remote_addr))
                }
                ffi::IBV_WR_ATOMIC_FETCH_AND_ADD => {
                    let at = request.wr.atomic;
                    let call = (*raw).wr_atomic_fetch_add;
                    call.map(|call| call(raw, at.rkey, at.remote_addr, at.compare_add))
                }
                ffi::IBV_WR_ATOMIC_CMP_AND_SWP => {
                    let at = request.wr.atomic;
                    let call = (*raw).wr_atomic_cmp_swp;
                    call.map(|call| call(raw, at.rkey, at.remote_addr, at.compare_add, at.swap))
                }
                _ => None,
            };
            if begun.is_none() {
                return false;
            }
            if datagrams {
                let Some(set_address) = (*raw).wr_set_ud_addr else { return false };
                let to = request.wr.ud;
                set_address(raw, to.ah, to.remote_qpn, to.remote_qkey);
            }
            self.set_data(request);
        }
        true
    }

    /// The bytes of a request.
    ///
    /// # Safety
    /// As for [`ExtendedSends::build`].
    #[inline]
    unsafe fn set_data(&self, request: &ffi::ibv_send_wr) {
        let raw = self.raw.as_ptr();
        // SAFETY: there are as many scatter entries as said; inline data is copied at once.
        unsafe {
            match request.num_sge {
                1 if request.send_flags & ffi::IBV_SEND_INLINE != 0 => {
                    let entry = *request.sg_list;
                    let data = entry.addr as *mut std::ffi::c_void;
                    (self.set_inline)(raw, data, entry.length as usize);
                }
                1 => {
                    let entry = *request.sg_list;
                    (self.set_sge)(raw, entry.lkey, entry.addr, entry.length);
                }
                // No bytes at all: drivers still expect to be told.
                count => (self.set_sges)(raw, count as usize, request.sg_list),
            }
        }
    }
}
