package serve

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loop waits for many connections. It belongs to one goroutine, which stays on its
// thread.
type loop struct {
	w       *worker
	ep      int
	listen  int
	clients map[int32]*socket
	// arena is where what arrives in a round is read to. Requests point into it until
	// they are executed.
	arena []byte
	used  int
	// deafSince is since when it does not wait for connections, zero if it does.
	deafSince time.Time
	// written are clients that have something to write.
	written []*socket
	events  [256]syscall.EpollEvent

	// back are clients that are busy no more, mailed those with messages, and killed
	// those to be closed. Whoever adds one while the loop sleeps wakes it.
	mu                   sync.Mutex
	back, mailed, killed []*socket
	asleep               bool
	wakeup               int // an eventfd
}

// socket is a client of a loop.
type socket struct {
	*client
	fd int
	l  *loop
	// interest is what epoll tells of it.
	interest uint32
	waiting  bool // in written
	gone     bool
	ended    bool // it says nothing more, and may still read
}

const (
	// readBytes is how much is read from a connection in a round, and arenaBytes how
	// much from all of them.
	readBytes  = 64 << 10
	arenaBytes = 8 << 20
	// polls is how often a loop looks for something to do before it lets its thread
	// sleep: waking it costs more than a few looks.
	polls = 20
	// drains is how often it reads at most from a connection that is about to be closed.
	drains = 64
	// keepAlive is after how many seconds of silence the system asks whether a client is
	// still there.
	keepAlive = 300
)

// serveLoops serves connections of TCP by loops.
func (s *Server) serveLoops(l *net.TCPListener) error {
	defer l.Close()
	f, err := l.File()
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		return err
	}
	lp := &loop{w: newWorker(s, keyRoom), listen: fd, clients: map[int32]*socket{}, arena: make([]byte, arenaBytes)}
	if lp.ep, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return err
	}
	defer syscall.Close(lp.ep)
	if lp.wakeup, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return err
	}
	defer syscall.Close(lp.wakeup) // nobody writes to it when the loop is awake
	for _, fd := range []int{fd, lp.wakeup} {
		if err := lp.control(syscall.EPOLL_CTL_ADD, fd, syscall.EPOLLIN); err != nil {
			return err
		}
	}
	over := make(chan struct{})
	s.running.Go(func() {
		<-s.ctx.Done()
		lp.wake(func() {})
		<-over
	})
	defer close(over)
	return lp.run()
}

func (l *loop) control(op, fd int, events uint32) error {
	return syscall.EpollCtl(l.ep, op, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)})
}

// watch changes what a client is waited for.
func (l *loop) watch(c *socket, events uint32) {
	if c.interest != events && !c.gone {
		c.interest = events
		if l.control(syscall.EPOLL_CTL_MOD, c.fd, events) != nil {
			l.drop(c)
		}
	}
}

// ignored is the interest in a client that is gone while it is busy.
const ignored = 1 << 31

// ignore stops waiting for a client that is gone while it is busy: epoll would tell of that
// again and again. When it is busy no more it is dropped: see watch.
func (l *loop) ignore(c *socket) {
	if c.interest != ignored {
		c.interest = ignored
		_ = l.control(syscall.EPOLL_CTL_DEL, c.fd, 0) // it is among those of ep: see accept
	}
}

func (l *loop) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer l.shut()
	for {
		if l.w.s.ctx.Err() != nil {
			return ErrClosed
		}
		n, err := l.wait()
		if err != nil {
			return fmt.Errorf("wait for clients: %w", err)
		}
		if !l.deafSince.IsZero() && time.Since(l.deafSince) > acceptPause {
			l.deafSince = time.Time{}
			l.hear(syscall.EPOLLIN)
		}
		l.w.nowMS = l.w.s.opts.Now().UnixMilli()
		for i := range n {
			l.event(&l.events[i])
		}
		l.resumeAll()
		l.end()
		if l.w.resumed { // they are answered with the others
			l.w.resumed = false
			l.resumeAll()
			l.end()
		}
		l.deliver()
		for _, c := range l.written {
			c.waiting = false
			l.flush(c)
		}
		clear(l.written)
		l.written = l.written[:0]
	}
}

func (l *loop) event(e *syscall.EpollEvent) {
	switch fd := int(e.Fd); fd {
	case l.listen:
		l.accept()
	case l.wakeup:
		var room [8]byte
		_, _ = syscall.Read(fd, room[:])
	default:
		c := l.clients[e.Fd]
		if c == nil {
			return
		}
		if e.Events&syscall.EPOLLOUT != 0 {
			c.dirty()
		}
		switch {
		case c.busy && e.Events&(syscall.EPOLLHUP|syscall.EPOLLERR) != 0:
			l.ignore(c)
		case e.Events&^syscall.EPOLLOUT != 0:
			l.read(c)
		}
	}
}

// wait returns how many events there are. It looks some times without leaving the
// processor to others, and then sleeps.
func (l *loop) wait() (int, error) {
	for range polls {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.ep), uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events)), 0, 0, 0)
		if errno == 0 && n > 0 {
			return int(n), nil
		}
		if l.w.crowded {
			return 0, nil // there is something to do without them
		}
	}
	l.mu.Lock()
	l.asleep = len(l.back)+len(l.mailed)+len(l.killed) == 0 && l.w.s.ctx.Err() == nil
	asleep := l.asleep
	l.mu.Unlock()
	if !asleep {
		return 0, nil
	}
	patience := -1 // milliseconds
	if !l.deafSince.IsZero() {
		patience = int(acceptPause.Milliseconds()) + 1
	}
	for {
		n, err := syscall.EpollWait(l.ep, l.events[:], patience)
		if err != syscall.EINTR {
			l.mu.Lock()
			l.asleep = false
			l.mu.Unlock()
			return n, err
		}
	}
}

// resumeAll goes on with clients that are busy no more.
func (l *loop) resumeAll() {
	l.mu.Lock()
	back := l.back
	l.back = nil
	l.mu.Unlock()
	for _, c := range back {
		c.busy = false
		if c.gone {
			l.w.s.gone(c.client)
			continue
		}
		c.collect()
		c.dirty()
		if len(c.in) > 0 || c.waits() {
			l.takeOwn(c)
		}
		l.follow(c)
	}
}

// deliver takes the messages for clients, and closes those that were killed. It comes
// when all that was executed is answered: a message is about something later.
func (l *loop) deliver() {
	l.mu.Lock()
	mailed, killed := l.mailed, l.killed
	l.mailed, l.killed = nil, nil
	l.mu.Unlock()
	for _, c := range mailed {
		if !c.busy && !c.gone { // else its answers are another's: see resumeAll
			c.collect()
		}
	}
	for _, c := range killed {
		l.drop(c)
	}
}

// wake does something under the lock of the loop, and wakes it.
func (l *loop) wake(f func()) {
	l.mu.Lock()
	f()
	wake := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if wake {
		one := [8]byte{1}
		_, _ = syscall.Write(l.wakeup, one[:])
	}
}

// send implements transport.
func (c *socket) send() {
	if len(c.out.Bytes) > 0 {
		c.l.flush(c)
	}
}

// resume implements transport.
func (c *socket) resume() { c.l.wake(func() { c.l.back = append(c.l.back, c) }) }

// posted implements transport.
func (c *socket) posted() { c.l.wake(func() { c.l.mailed = append(c.l.mailed, c) }) }

// kill implements transport.
func (c *socket) kill() { c.l.wake(func() { c.l.killed = append(c.l.killed, c) }) }

// shut closes all connections.
func (l *loop) shut() {
	l.end()
	for _, c := range l.clients {
		if !c.busy {
			l.flush(c)
		}
		l.drop(c)
	}
}

// end ends a round: what was read is executed, and its memory is free again.
func (l *loop) end() {
	l.w.commit()
	l.used = 0
}

func (l *loop) accept() {
	for {
		fd, from, err := syscall.Accept4(l.listen, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		switch err {
		case nil:
		case syscall.EINTR, syscall.ECONNABORTED:
			continue
		case syscall.EAGAIN:
			return
		default: // too many open files, say: epoll would tell of that one again and again
			l.w.s.notAccepted(err)
			l.hear(0)
			l.deafSince = time.Now()
			return
		}
		// It would be slower without, and not wrong.
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1) // who is gone without a word is noticed
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, keepAlive)
		c := &socket{fd: fd, l: l, interest: syscall.EPOLLIN}
		to, _ := syscall.Getsockname(fd)
		var refused string
		if c.client, refused = l.w.s.newClient(c, addressOf(from), addressOf(to)); c.client == nil {
			_, _ = syscall.Write(fd, []byte(refused))
			syscall.Close(fd)
			continue
		}
		if l.control(syscall.EPOLL_CTL_ADD, fd, c.interest) != nil {
			l.w.s.gone(c.client)
			syscall.Close(fd)
			continue
		}
		l.clients[int32(fd)] = c
	}
}

// hear waits for connections if events is EPOLLIN, and not if it is 0.
func (l *loop) hear(events uint32) {
	_ = l.control(syscall.EPOLL_CTL_MOD, l.listen, events) // it was added, and is open as long as the loop runs
}

// addressOf is an address as people write it.
func addressOf(a syscall.Sockaddr) string {
	switch a := a.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String()
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)).String()
	}
	return "?:0"
}

// drop closes a connection. What is still under way for it is done first.
func (l *loop) drop(c *socket) {
	if c.gone {
		return
	}
	c.gone = true
	c.left.Store(true)
	delete(l.clients, int32(c.fd))
	syscall.Close(c.fd)
	if !c.busy {
		l.w.s.gone(c.client)
	}
}

// read takes what has arrived at a connection.
func (l *loop) read(c *socket) {
	if c.busy || !c.closing && len(c.out.Bytes) > unread {
		l.follow(c)
		return
	}
	if len(l.arena)-l.used < readBytes {
		l.end()
	}
	room := l.arena[l.used : l.used+readBytes]
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(&room[0])), uintptr(len(room)))
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return
	case errno == 0 && n == 0 && c.closing && len(c.out.Bytes) > 0:
		c.ended = true
		l.follow(c)
		return
	case errno != 0 || n == 0:
		if c.pending > 0 {
			l.end()
		}
		l.drop(c)
		return
	}
	l.w.s.stats.in.Add(uint64(n))
	if c.closing {
		return // it is read, or the last answers would be thrown away with it
	}
	data := room[:n]
	if len(c.in) > 0 {
		c.in = append(c.in, data...)
		l.takeOwn(c)
		c.count()
		return
	}
	l.used += int(n)
	if rest := l.w.take(c.client, data); len(rest) > 0 {
		c.in = append(c.in, rest...)
		c.count()
	}
}

// drain throws away what has arrived at a connection that is about to be closed: to close it with that
// unread would take the last answers from the client.
func (l *loop) drain(c *socket) {
	var room [4096]byte
	for range drains {
		if n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(&room[0])), uintptr(len(room))); errno != 0 || n == 0 {
			return
		}
	}
}

// takeOwn takes requests from the client's own memory.
func (l *loop) takeOwn(c *socket) {
	rest := l.w.take(c.client, c.in)
	switch {
	case len(rest) == len(c.in):
		return
	case c.pending > 0:
		l.end() // what is staged points into it
	}
	if len(rest) == 0 {
		c.in = nil
		return
	}
	c.in = append(c.in[:0], rest...)
}

// follow waits for what the client can go on with: requests, unless it is busy or does
// not read its answers, and room for these. What comes behind its goodbye is read and thrown away.
func (l *loop) follow(c *socket) {
	events := uint32(0)
	if !c.busy { // else its answers are another's
		if (len(c.out.Bytes) <= unread || c.closing) && !c.ended {
			events |= syscall.EPOLLIN
		}
		if len(c.out.Bytes) > 0 && !c.waiting {
			events |= syscall.EPOLLOUT
		}
	}
	l.watch(c, events)
}

// dirty implements transport.
func (c *socket) dirty() {
	if !c.busy && !c.waiting { // else it is called by another, and resumeAll comes later
		c.waiting = true
		c.l.written = append(c.l.written, c)
	}
}

// flush writes what a client is answered, as much as it takes.
func (l *loop) flush(c *socket) {
	if c.busy && c.away || c.gone {
		return // it is another's now, and comes back
	}
	l.w.s.tracker.answered(c.client)
	out, sent := c.out.Bytes, len(c.out.Bytes)
	for len(out) > 0 {
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)))
		if errno == syscall.EINTR {
			continue
		}
		if errno == syscall.EAGAIN {
			break
		}
		if errno != 0 {
			l.drop(c)
			return
		}
		out = out[n:]
	}
	l.w.s.stats.out.Add(uint64(sent - len(out)))
	switch {
	case len(out) > 0:
		c.out.Bytes = append(c.out.Bytes[:0], out...)
	case cap(c.out.Bytes) > keepOut:
		c.out.Bytes = nil
	default:
		c.out.Bytes = c.out.Bytes[:0]
	}
	c.seen.left(len(out), len(out) < sent, l.w.nowMS)
	c.seen.waiting.Store(int64(len(out)))
	c.count()
	if c.closing && len(out) == 0 {
		l.drain(c)
		l.drop(c)
		return
	}
	if c.stalled && !c.busy && len(out) <= unread {
		// Its requests are taken in the next round. Until then it is busy: were it taken for
		// another event, it could be busy with something else when that comes.
		c.stalled, c.busy = false, true
		c.resume()
	}
	if len(out) > 0 || c.interest != syscall.EPOLLIN {
		l.follow(c)
	}
}
