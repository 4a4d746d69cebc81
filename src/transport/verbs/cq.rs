//! Completion queues, and waiting for them without spinning.

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::device::{Context, report_leak, set_nonblocking};
use super::error::{CallError, CompletionError, Operation, Result, WcStatus, last_errno};
use super::ffi;

/// Where completions of one or more queue pairs arrive. Clones share it.
#[derive(Clone)]
pub struct CompletionQueue(Arc<Inner>);

struct Inner {
    raw: NonNull<ffi::ibv_cq>,
    extended: Option<ExtendedPolls>,
    context: Context,
    channel: Option<CompletionChannel>,
}

// SAFETY: libibverbs allows every verb on a completion queue from any thread at any time.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl CompletionQueue {
    /// A queue for at least `entries` completions; with `channel`, one that can be waited for.
    pub fn new(
        context: &Context,
        entries: u32,
        channel: Option<&CompletionChannel>,
    ) -> Result<CompletionQueue> {
        let len = i32::try_from(entries).unwrap_or(i32::MAX);
        let none = std::ptr::null_mut();
        let channel_raw = channel.map_or(none, |channel| channel.0.raw.as_ptr());
        let symbols = context.symbols();
        // SAFETY: context and channel are alive, and the queue keeps them so.
        let raw = unsafe {
            (symbols.ibv_create_cq)(context.raw(), len, std::ptr::null_mut(), channel_raw, 0)
        };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let most = context.limits().max_cqe;
            CallError::new(Operation::CreateCq, context.name(), last_errno())
                .with_detail(format!("{entries} entries asked for, the device allows {most}"))
        })?;
        Ok(CompletionQueue(Arc::new(Inner {
            raw,
            extended: None,
            context: context.clone(),
            channel: channel.cloned(),
        })))
    }

    /// The same by the extended verb: completions are read field by field.
    pub fn extended(
        context: &Context,
        entries: u32,
        channel: Option<&CompletionChannel>,
    ) -> Result<CompletionQueue> {
        let none = std::ptr::null_mut();
        let wanted =
            ffi::IBV_WC_EX_WITH_BYTE_LEN | ffi::IBV_WC_EX_WITH_IMM | ffi::IBV_WC_EX_WITH_QP_NUM;
        // SAFETY: numbers and null pointers.
        let mut request: ffi::ibv_cq_init_attr_ex = unsafe { std::mem::zeroed() };
        request.cqe = entries;
        request.channel = channel.map_or(none, |channel| channel.0.raw.as_ptr());
        request.wc_flags = u64::from(wanted);
        let failed = |errno| {
            CallError::new(Operation::CreateCqEx, context.name(), errno)
                .with_detail(format!("{entries} entries asked for"))
        };
        let raw = context.create_cq_ex(&mut request).map_err(failed)?;
        // SAFETY: just made; the queue keeps it alive.
        let polls = unsafe { ExtendedPolls::of(raw, context.quirks().polls_singly) };
        let queue = CompletionQueue(Arc::new(Inner {
            raw: raw.cast(),
            extended: polls,
            context: context.clone(),
            channel: channel.cloned(),
        }));
        match queue.0.extended.is_some() {
            true => Ok(queue),
            false => Err(failed(libc::EOPNOTSUPP).into()),
        }
    }

    /// Moves completions into `done`, returns how many; 0 when there is none.
    #[inline]
    pub fn poll(&self, done: &mut [WorkCompletion]) -> Result<usize> {
        if let Some(extended) = &self.0.extended {
            // SAFETY: the queue is alive.
            let polled = unsafe { extended.poll(done) };
            return polled
                .map_err(|errno| CallError::new(Operation::PollCq, self.device(), errno).into());
        }
        let raw = self.0.raw.as_ptr();
        let len = i32::try_from(done.len()).unwrap_or(i32::MAX);
        // SAFETY: the queue is alive; the array has `len` places of the library's structure.
        let count = unsafe {
            let Some(poll) = (*(*raw).context).ops.poll_cq else { return self.missing() };
            poll(raw, len, done.as_mut_ptr().cast())
        };
        if count < 0 {
            return Err(CallError::new(Operation::PollCq, self.device(), libc::EIO).into());
        }
        Ok(count as usize)
    }

    /// Waits until `deadline` for the event asked for by [`CompletionQueue::arm`]; false when it
    /// did not come. Poll between arming and waiting: a completion may have come before.
    pub fn wait(&self, deadline: Instant) -> Result<bool> {
        let Some(channel) = &self.0.channel else { return self.missing() };
        channel.wait(deadline)
    }

    /// Asks the channel for an event at the next completion.
    #[inline]
    pub fn arm(&self) -> Result<()> {
        let raw = self.0.raw.as_ptr();
        // SAFETY: the queue is alive.
        let status = unsafe {
            let Some(arm) = (*(*raw).context).ops.req_notify_cq else { return self.missing() };
            arm(raw, 0)
        };
        match status {
            0 => Ok(()),
            errno => {
                let error = CallError::new(Operation::RequestNotify, self.device(), errno.abs());
                Err(error.into())
            }
        }
    }

    pub(super) fn raw(&self) -> *mut ffi::ibv_cq {
        self.0.raw.as_ptr()
    }

    fn device(&self) -> &str {
        self.0.context.name()
    }

    #[cold]
    fn missing<T>(&self) -> Result<T> {
        Err(CallError::new(Operation::PollCq, self.device(), libc::EOPNOTSUPP).into())
    }
}

/// How completions are read field by field. Resolved once: the loop asks nothing.
struct ExtendedPolls {
    raw: NonNull<ffi::ibv_cq_ex>,
    /// One completion from each start to its end.
    singly: bool,
    start: unsafe extern "C" fn(*mut ffi::ibv_cq_ex, *mut ffi::ibv_poll_cq_attr) -> i32,
    next: unsafe extern "C" fn(*mut ffi::ibv_cq_ex) -> i32,
    end: unsafe extern "C" fn(*mut ffi::ibv_cq_ex),
    opcode: Field,
    flags: Field,
    qp_num: Field,
    byte_len: Field,
    immediate: Field,
    vendor_err: Field,
}

type Field = unsafe extern "C" fn(*mut ffi::ibv_cq_ex) -> u32;

impl ExtendedPolls {
    /// Of an extended queue; none where the driver lacks what was asked for.
    ///
    /// # Safety
    /// `raw` is alive for as long as the value is used.
    unsafe fn of(raw: NonNull<ffi::ibv_cq_ex>, singly: bool) -> Option<ExtendedPolls> {
        // SAFETY: alive, by contract.
        let calls = unsafe { raw.as_ref() };
        Some(ExtendedPolls {
            raw,
            singly,
            start: calls.start_poll?,
            next: calls.next_poll?,
            end: calls.end_poll?,
            opcode: calls.read_opcode?,
            flags: calls.read_wc_flags?,
            qp_num: calls.read_qp_num?,
            byte_len: calls.read_byte_len?,
            immediate: calls.read_imm_data?,
            vendor_err: calls.read_vendor_err?,
        })
    }

    /// As [`CompletionQueue::poll`]; an errno on failure.
    ///
    /// # Safety
    /// The queue is alive.
    #[inline]
    unsafe fn poll(&self, done: &mut [WorkCompletion]) -> std::result::Result<usize, i32> {
        let mut count = 0;
        while count < done.len() {
            // SAFETY: alive, by contract.
            let found = unsafe { self.poll_some(&mut done[count..]) }?;
            count += found;
            if found == 0 || !self.singly {
                break;
            }
        }
        Ok(count)
    }

    /// From one start to its end: one completion where they come singly.
    ///
    /// # Safety
    /// The queue is alive.
    #[inline]
    unsafe fn poll_some(&self, done: &mut [WorkCompletion]) -> std::result::Result<usize, i32> {
        let mut request = ffi::ibv_poll_cq_attr { comp_mask: 0 };
        let most = if self.singly { 1 } else { done.len() };
        let raw = self.raw.as_ptr();
        // SAFETY: alive, by contract; fields are read between start and end only.
        unsafe {
            match (self.start)(raw, &mut request) {
                0 => {}
                libc::ENOENT => return Ok(0),
                errno => return Err(errno.abs()),
            }
            let (mut count, mut status) = (0, 0);
            while status == 0 && count < most {
                self.read(&mut done[count].0);
                count += 1;
                if count < most {
                    status = (self.next)(raw);
                }
            }
            (self.end)(raw);
            if status == 0 || status == libc::ENOENT { Ok(count) } else { Err(status.abs()) }
        }
    }

    /// The completion at hand.
    ///
    /// # Safety
    /// Between start and end.
    #[inline]
    unsafe fn read(&self, done: &mut ffi::ibv_wc) {
        let raw = self.raw.as_ptr();
        // SAFETY: by contract.
        unsafe {
            done.wr_id = (*raw).wr_id;
            done.status = (*raw).status;
            done.qp_num = (self.qp_num)(raw);
            if done.status != ffi::IBV_WC_SUCCESS {
                done.vendor_err = (self.vendor_err)(raw);
                return;
            }
            done.opcode = (self.opcode)(raw);
            done.wc_flags = 0;
            if done.opcode & ffi::IBV_WC_RECV != 0 {
                done.wc_flags = (self.flags)(raw);
                done.byte_len = (self.byte_len)(raw);
                done.__bindgen_anon_1.imm_data = (self.immediate)(raw);
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: every queue pair on this queue holds a clone, so none is left; events are
        // acknowledged as they are read.
        let status = unsafe { (self.context.symbols().ibv_destroy_cq)(self.raw.as_ptr()) };
        report_leak("destroy the completion queue", self.context.name(), status);
    }
}

/// Wakes a thread that waits for completions. Clones share it.
#[derive(Clone)]
pub struct CompletionChannel(Arc<Channel>);

struct Channel {
    raw: NonNull<ffi::ibv_comp_channel>,
    context: Context,
}

// SAFETY: libibverbs allows every verb on a channel from any thread at any time.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl CompletionChannel {
    /// A channel of the device.
    pub fn new(context: &Context) -> Result<CompletionChannel> {
        let failed = |errno| CallError::new(Operation::CreateCompChannel, context.name(), errno);
        // SAFETY: the context is open.
        let raw = unsafe { (context.symbols().ibv_create_comp_channel)(context.raw()) };
        let raw = NonNull::new(raw).ok_or_else(|| failed(last_errno()))?;
        let channel = CompletionChannel(Arc::new(Channel { raw, context: context.clone() }));
        set_nonblocking(channel.fd()).map_err(failed)?;
        Ok(channel)
    }

    fn fd(&self) -> RawFd {
        // SAFETY: the channel is alive.
        unsafe { self.0.raw.as_ref() }.fd
    }

    /// Waits for one event until `deadline`, and acknowledges it; false when none came.
    fn wait(&self, deadline: Instant) -> Result<bool> {
        loop {
            if self.take_event()? {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            // Rounded up, lest the last millisecond is spent spinning.
            let left = left + Duration::from_micros(999);
            let timeout = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
            let mut fd = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one structure, as said.
            if unsafe { libc::poll(&mut fd, 1, timeout) } < 0 && last_errno() != libc::EINTR {
                return Err(self.failed(last_errno()));
            }
        }
    }

    fn take_event(&self) -> Result<bool> {
        let symbols = self.0.context.symbols();
        let (mut queue, mut cookie) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel is alive and does not block; both arguments are for the answer.
        let status =
            unsafe { (symbols.ibv_get_cq_event)(self.0.raw.as_ptr(), &mut queue, &mut cookie) };
        if status != 0 {
            return match last_errno() {
                libc::EAGAIN | libc::EINTR => Ok(false),
                errno => Err(self.failed(errno)),
            };
        }
        // SAFETY: the event's queue cannot be destroyed before this acknowledgement.
        unsafe { (symbols.ibv_ack_cq_events)(queue, 1) };
        Ok(true)
    }

    fn failed(&self, errno: i32) -> super::error::Error {
        CallError::new(Operation::GetCqEvent, self.0.context.name(), errno).into()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let destroy = self.context.symbols().ibv_destroy_comp_channel;
        // SAFETY: every queue on this channel holds a clone, so none is left.
        let status = unsafe { destroy(self.raw.as_ptr()) };
        report_leak("destroy the completion channel", self.context.name(), status);
    }
}

/// A completion as the library wrote it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct WorkCompletion(ffi::ibv_wc);

impl WorkCompletion {
    /// A place for [`CompletionQueue::poll`] to write to.
    pub const EMPTY: WorkCompletion =
        // SAFETY: numbers only.
        WorkCompletion(unsafe { std::mem::zeroed::<ffi::ibv_wc>() });

    /// Id of the work request.
    #[inline]
    pub fn id(&self) -> u64 {
        self.0.wr_id
    }

    /// Number of the queue pair.
    #[inline]
    pub fn qp_num(&self) -> u32 {
        self.0.qp_num
    }

    /// True when it succeeded; else only id, queue pair, status and vendor error mean anything.
    #[inline]
    pub fn is_ok(&self) -> bool {
        self.0.status == ffi::IBV_WC_SUCCESS
    }

    /// True for the completion of a receive.
    #[inline]
    pub fn is_receive(&self) -> bool {
        self.0.opcode & ffi::IBV_WC_RECV != 0
    }

    /// Bytes received, by a receive or a WRITE with immediate.
    #[inline]
    pub fn byte_len(&self) -> u32 {
        self.0.byte_len
    }

    /// Immediate data, where the peer sent some.
    #[inline]
    pub fn immediate(&self) -> Option<u32> {
        // SAFETY: both fields of the union are 32-bit numbers.
        let data = unsafe { self.0.__bindgen_anon_1.imm_data };
        (self.0.wc_flags & ffi::IBV_WC_WITH_IMM != 0).then_some(u32::from_be(data))
    }

    /// The error, with `object` (device and port) in its words; none when it succeeded.
    #[cold]
    pub fn error(&self, object: &str) -> Option<CompletionError> {
        (!self.is_ok()).then(|| CompletionError {
            object: object.into(),
            qp_num: self.0.qp_num,
            status: WcStatus(self.0.status),
            vendor_err: self.0.vendor_err,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_tells_what_the_library_wrote() {
        let mut done = WorkCompletion::EMPTY;
        assert!(done.is_ok() && !done.is_receive() && done.immediate().is_none());
        done.0.opcode = ffi::IBV_WC_RECV_RDMA_WITH_IMM;
        done.0.wc_flags = ffi::IBV_WC_WITH_IMM;
        done.0.__bindgen_anon_1.imm_data = 7_u32.to_be();
        assert!(done.is_receive());
        assert_eq!((done.immediate(), done.error("rxe0:1")), (Some(7), None));
        done.0.status = ffi::IBV_WC_RETRY_EXC_ERR;
        let error = done.error("rxe0:1").unwrap();
        assert_eq!(error.status, WcStatus(ffi::IBV_WC_RETRY_EXC_ERR));
    }
}
