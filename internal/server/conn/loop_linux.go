package conn

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/cleavekv/cleave/internal/server/stats"
)

// loop waits for many connections. It belongs to one goroutine, which stays on its
// thread.
type loop struct {
	set   *Set
	ctx   context.Context // it ends with the server, or when a loop has failed
	peers *loops
	index int // among them
	e     Executor
	epoll int
	// listenFD is the listener of a loop that accepts connections, -1 for the others.
	listenFD int
	clients  map[int32]*socket
	// arena is where what arrives in a round is read to. Requests point into it until
	// they are executed.
	arena     []byte
	arenaUsed int
	// acceptPausedAt is since when it does not wait for connections, zero if it does.
	acceptPausedAt time.Time
	// dirty are clients that have something to write.
	dirty  []*socket
	events [256]syscall.EpollEvent
	nowMS  int64

	// bytesIn, bytesOut and reads, those of sockets, are of the round, connections is how many clients the loop has and is
	// about to have.
	bytesIn, bytesOut uint64
	reads             int
	connections       atomic.Int64
	// busy is how long the loop was not waiting in its period, which began at periodBegan, when its thread had been on
	// a processor for threadBegan: see shareWork.
	busy, periodBegan, threadBegan time.Duration
	periodsDone                    int
	meter                          workMeter

	// mail is what other goroutines leave for the loop. One that leaves something while the loop sleeps wakes it.
	mu     sync.Mutex
	mail   loopMail
	asleep bool
	wakeFD int // an eventfd
}

// loopMail are clients that other goroutines have left for a loop: those that are busy no more, those with messages,
// those to be closed, and those that another loop has given to it.
type loopMail struct{ resumed, withMail, toClose, adopted []*socket }

func (m *loopMail) isEmpty() bool {
	return len(m.resumed)+len(m.withMail)+len(m.toClose)+len(m.adopted) == 0
}

// socket is a client of a loop.
type socket struct {
	*Conn
	fd int
	// l is the loop that it belongs to. It is changed under the lock of the new one: see handOver.
	l atomic.Pointer[loop]
	// work is what it has given the loop to do in this period, and adoptedAt how many periods that had done before.
	work      int64
	adoptedAt int
	// interest is the set of events that epoll reports.
	interest   uint32
	isDirty    bool // in written
	dropped    bool
	halfClosed bool // it says nothing more, and may still read
}

const (
	// readChunkBytes is how much is read from a connection in a round, and arenaBytes how
	// much from all of them.
	readChunkBytes = 64 << 10
	arenaBytes     = 8 << 20
	// pollsBeforeSleep is how often a loop looks for something to do before it lets its thread
	// sleep: waking it costs more than a few looks.
	pollsBeforeSleep = 20
	// maxDrainReads is how often it reads at most from a connection that is about to be closed.
	maxDrainReads = 64
	// keepAliveSeconds is after how many seconds of silence the system asks whether a client is
	// still there.
	keepAliveSeconds = 300
)

func (l *loop) controlEpoll(op, fd int, events uint32) error {
	return syscall.EpollCtl(l.epoll, op, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)})
}

// setInterest changes what a client is waited for.
func (l *loop) setInterest(c *socket, events uint32) {
	if c.interest != events && !c.dropped {
		c.interest = events
		if l.controlEpoll(syscall.EPOLL_CTL_MOD, c.fd, events) != nil {
			l.dropClient(c)
		}
	}
}

// interestIgnored is the interest in a client that is gone while it is busy.
const interestIgnored = 1 << 31

// ignoreEvents stops waiting for a client that is gone while it is busy: epoll would report that
// again and again. When it is busy no more it is dropped: see resumeClients.
func (l *loop) ignoreEvents(c *socket) {
	if c.interest != interestIgnored {
		c.interest = interestIgnored
		_ = l.controlEpoll(syscall.EPOLL_CTL_DEL, c.fd, 0) // it is among those of ep: see acceptClients
	}
}

func (l *loop) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sharesWork := len(l.peers.all) > 1
	for {
		if l.ctx.Err() != nil {
			return ErrClosed
		}
		n, err := l.waitEvents()
		if err != nil {
			return fmt.Errorf("wait for clients: %w", err)
		}
		if !l.acceptPausedAt.IsZero() && time.Since(l.acceptPausedAt) > acceptPause {
			l.acceptPausedAt = time.Time{}
			l.setListenInterest(syscall.EPOLLIN)
		}
		began := stats.MonotonicNow()
		l.nowMS = l.set.now().UnixMilli()
		l.e.BeginRound(l.nowMS)
		for i := range n {
			l.handleEvent(&l.events[i])
		}
		l.resumeClients()
		l.endRound()
		if l.resumeClients() { // the executor has answered them at once: they are answered with the others
			l.endRound()
		}
		l.deliverMail()
		for _, c := range l.dirty {
			c.isDirty = false
			l.flushClient(c)
		}
		clear(l.dirty)
		l.dirty = l.dirty[:0]
		l.countBytes()
		now := stats.MonotonicNow()
		l.e.EndRound(l.reads, now-began)
		l.reads = 0
		l.busy += now - began
		if sharesWork && now-l.periodBegan >= l.set.WorkPeriod {
			l.shareWork(now)
		}
	}
}

// countBytes adds the bytes of a round to those of the server.
func (l *loop) countBytes() {
	if l.bytesIn > 0 {
		l.set.stats.BytesIn.Add(l.bytesIn)
	}
	if l.bytesOut > 0 {
		l.set.stats.BytesOut.Add(l.bytesOut)
	}
	l.bytesIn, l.bytesOut = 0, 0
}

func (l *loop) handleEvent(e *syscall.EpollEvent) {
	switch fd := int(e.Fd); fd {
	case l.listenFD:
		l.acceptClients()
	case l.wakeFD:
		var room [8]byte
		_, _ = syscall.Read(fd, room[:])
	default:
		c := l.clients[e.Fd]
		if c == nil {
			return
		}
		if e.Events&syscall.EPOLLOUT != 0 {
			c.NotifyOutput()
		}
		switch {
		case c.Busy && e.Events&(syscall.EPOLLHUP|syscall.EPOLLERR) != 0:
			l.ignoreEvents(c)
		case e.Events&^syscall.EPOLLOUT != 0:
			l.readClient(c)
		}
	}
}

// waitEvents returns how many events there are. It looks some times without leaving the
// processor to others, and then sleeps.
func (l *loop) waitEvents() (int, error) {
	for range pollsBeforeSleep {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events)), 0, 0, 0)
		if errno == 0 && n > 0 {
			return int(n), nil
		}
	}
	l.mu.Lock()
	l.asleep = l.mail.isEmpty() && l.ctx.Err() == nil
	asleep := l.asleep
	l.mu.Unlock()
	if !asleep {
		return 0, nil
	}
	patience := -1 // milliseconds
	if !l.acceptPausedAt.IsZero() {
		patience = int(acceptPause.Milliseconds()) + 1
	}
	for {
		n, err := syscall.EpollWait(l.epoll, l.events[:], patience)
		if err != syscall.EINTR {
			l.mu.Lock()
			l.asleep = false
			l.mu.Unlock()
			return n, err
		}
	}
}

// resumeClients goes on with clients that are busy no more, and reports whether there were any.
func (l *loop) resumeClients() (some bool) {
	l.mu.Lock()
	back := l.mail.resumed
	l.mail.resumed = nil
	l.mu.Unlock()
	var withMail []*socket
	for _, c := range back {
		c.Busy = false
		if c.dropped {
			c.session.Close()
			continue
		}
		if c.session.HasBacklog() {
			withMail = append(withMail, c) // answers that wait come first
		} else {
			c.CollectMail()
		}
		c.NotifyOutput()
		if len(c.In) > 0 || c.session.HasBacklog() {
			l.takeBuffered(c)
		}
		l.updateInterest(c)
	}
	if len(withMail) > 0 {
		l.mu.Lock()
		l.mail.withMail = append(l.mail.withMail, withMail...)
		l.mu.Unlock()
	}
	return len(back) > 0
}

// deliverMail adopts clients of other loops, takes the messages for clients, and closes those that were killed. It
// comes when all that was executed is answered: a message is about something later. What is for a client that was
// moved meanwhile goes to its loop.
func (l *loop) deliverMail() {
	l.mu.Lock()
	mailed, killed, adopted := l.mail.withMail, l.mail.toClose, l.mail.adopted
	l.mail.withMail, l.mail.toClose, l.mail.adopted = nil, nil, nil
	l.mu.Unlock()
	for _, c := range adopted {
		l.adoptClient(c)
	}
	for _, c := range mailed {
		if c.l.Load() != l {
			c.NotifyMail()
			continue
		}
		if !c.Busy && !c.dropped && !c.session.HasBacklog() { // else it comes when that is done: see resumeClients
			c.CollectMail()
		}
	}
	for _, c := range killed {
		if c.l.Load() != l {
			c.Close()
			continue
		}
		l.dropClient(c)
	}
}

// wakeWith does something under the lock of the loop, and wakes it.
func (l *loop) wakeWith(f func()) {
	l.mu.Lock()
	f()
	wake := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if wake {
		one := [8]byte{1}
		_, _ = syscall.Write(l.wakeFD, one[:])
	}
}

// SendOutput implements [Transport].
func (c *socket) SendOutput() {
	if len(c.Out.Bytes) > 0 {
		c.l.Load().flushClient(c)
	}
}

// Resume implements [Transport].
func (c *socket) Resume() {
	l := c.l.Load() // a client that is busy is not moved
	l.wakeWith(func() { l.mail.resumed = append(l.mail.resumed, c) })
}

// NotifyMail implements [Transport].
func (c *socket) NotifyMail() {
	l := c.l.Load() // which forwards it if the client is moved: see deliverMail
	l.wakeWith(func() { l.mail.withMail = append(l.mail.withMail, c) })
}

// Close implements [Transport].
func (c *socket) Close() {
	l := c.l.Load()
	l.wakeWith(func() { l.mail.toClose = append(l.mail.toClose, c) })
}

// closeAll closes all connections, also those that were given to the loop when it had ended.
func (l *loop) closeAll() {
	l.deliverMail()
	l.endRound()
	for _, c := range l.clients {
		if !c.Busy {
			l.flushClient(c)
		}
		l.dropClient(c)
	}
}

// endRound ends a round: what was read is executed, and its memory is free again.
func (l *loop) endRound() {
	l.e.Commit()
	l.arenaUsed = 0
}

func (l *loop) acceptClients() {
	for {
		fd, from, err := syscall.Accept4(l.listenFD, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		switch err {
		case nil:
		case syscall.EINTR, syscall.ECONNABORTED:
			continue
		case syscall.EAGAIN:
			return
		default: // too many open files, say: epoll would report that one again and again
			l.set.logAcceptError(err)
			l.setListenInterest(0)
			l.acceptPausedAt = time.Now()
			return
		}
		// It would be slower without, and not wrong.
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1) // a peer that is gone without closing is noticed
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, keepAliveSeconds)
		c := &socket{fd: fd}
		c.l.Store(l)
		to, _ := syscall.Getsockname(fd)
		var refused string
		if c.Conn, refused = l.e.Accept(c, formatSockaddr(from), formatSockaddr(to)); c.Conn == nil {
			_, _ = syscall.Write(fd, []byte(refused))
			syscall.Close(fd)
			continue
		}
		l.placeClient(c)
	}
}

// setListenInterest waits for connections if events is EPOLLIN, and not if it is 0.
func (l *loop) setListenInterest(events uint32) {
	_ = l.controlEpoll(syscall.EPOLL_CTL_MOD, l.listenFD, events) // it was added, and is open as long as the loop runs
}

// formatSockaddr is an address as people write it.
func formatSockaddr(a syscall.Sockaddr) string {
	switch a := a.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String()
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)).String()
	}
	return "?:0"
}

// dropClient closes a connection. What is still under way for it is done first.
func (l *loop) dropClient(c *socket) {
	if c.dropped {
		return
	}
	c.dropped = true
	c.Disconnected.Store(true)
	delete(l.clients, int32(c.fd))
	l.connections.Add(-1)
	syscall.Close(c.fd)
	if !c.Busy {
		c.session.Close()
	}
}

// readClient takes what has arrived at a connection.
func (l *loop) readClient(c *socket) {
	if c.Busy || !c.Closing && len(c.Out.Bytes) > MaxUnreadBytes {
		l.updateInterest(c)
		return
	}
	if len(l.arena)-l.arenaUsed < readChunkBytes {
		l.endRound()
	}
	room := l.arena[l.arenaUsed : l.arenaUsed+readChunkBytes]
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(&room[0])), uintptr(len(room)))
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return
	case errno == 0 && n == 0 && c.Closing && len(c.Out.Bytes) > 0:
		c.halfClosed = true
		l.updateInterest(c)
		return
	case errno != 0 || n == 0:
		if c.Staged > 0 {
			l.endRound()
		}
		l.dropClient(c)
		return
	}
	l.bytesIn += uint64(n)
	l.reads++
	c.work += int64(n) + readWork
	if c.Closing {
		return // it is read, or the last answers would be thrown away with it
	}
	data := room[:n]
	if len(c.In) > 0 {
		c.appendInput(data)
		l.takeBuffered(c)
		c.AccountMemory()
		return
	}
	l.arenaUsed += int(n)
	if rest := c.session.TakeRequests(data); len(rest) > 0 {
		c.In = append(c.In, rest...)
		c.AccountMemory()
	}
}

// drainInput throws away what has arrived at a connection that is about to be closed: to close it with that
// unread would take the last answers from the client.
func (l *loop) drainInput(c *socket) {
	var room [4096]byte
	for range maxDrainReads {
		if n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(&room[0])), uintptr(len(room))); errno != 0 || n == 0 {
			return
		}
	}
}

// takeBuffered takes requests from the client's own memory.
func (l *loop) takeBuffered(c *socket) {
	rest := c.session.TakeRequests(c.In)
	if len(rest) < len(c.In) && c.Staged > 0 {
		l.endRound() // what is staged points into it
	}
	if len(rest) == 0 {
		c.In = nil
		return
	}
	c.keepRest(rest)
}

// updateInterest waits for what the client can go on with: requests, unless it is busy or does
// not read its answers, and room for these. What comes behind its goodbye is read and thrown away.
func (l *loop) updateInterest(c *socket) {
	events := uint32(0)
	if !c.Busy { // else its answers are another's
		if (len(c.Out.Bytes) <= MaxUnreadBytes || c.Closing) && !c.halfClosed {
			events |= syscall.EPOLLIN
		}
		if len(c.Out.Bytes) > 0 && !c.isDirty {
			events |= syscall.EPOLLOUT
		}
	}
	l.setInterest(c, events)
}

// NotifyOutput implements [Transport].
func (c *socket) NotifyOutput() {
	if !c.Busy && !c.isDirty { // else it is called by another, and resumeClients comes later
		c.isDirty = true
		l := c.l.Load()
		l.dirty = append(l.dirty, c)
	}
}

// flushClient writes what a client is answered, as much as it takes.
func (l *loop) flushClient(c *socket) {
	if c.Busy && c.HandedOff || c.dropped {
		return // it is another's now, and comes back
	}
	c.session.RecordAnswered()
	out, sent := c.Out.Bytes, len(c.Out.Bytes)
	for len(out) > 0 {
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)))
		if errno == syscall.EINTR {
			continue
		}
		if errno == syscall.EAGAIN {
			break
		}
		if errno != 0 {
			l.dropClient(c)
			return
		}
		out = out[n:]
	}
	l.bytesOut += uint64(sent - len(out))
	c.work += int64(sent - len(out))
	c.keepUnsent(out)
	c.Status.recordUnread(len(out), len(out) < sent, l.nowMS)
	c.Status.UnsentBytes.Store(int64(len(out)))
	c.AccountMemory()
	if c.Closing && len(out) == 0 && c.Lingering && !c.dropped {
		// It receives an end of file, and what it still sends is read and thrown away until it
		// has seen that. The sweep ends one that goes on.
		c.Lingering = false
		if syscall.Shutdown(c.fd, syscall.SHUT_WR) == nil {
			c.Status.PartialSinceMS.Store(l.nowMS)
			l.updateInterest(c)
			return
		}
	}
	if c.Closing && len(out) == 0 {
		l.drainInput(c)
		l.dropClient(c)
		return
	}
	if c.Stalled && !c.Busy && len(out) <= MaxUnreadBytes {
		// Its requests are taken in the next round. Until then it is busy: were it taken for
		// another event, it could be busy with something else when that comes.
		c.Stalled, c.Busy = false, true
		c.Resume()
	}
	if len(out) > 0 || c.interest != syscall.EPOLLIN {
		l.updateInterest(c)
	}
}
