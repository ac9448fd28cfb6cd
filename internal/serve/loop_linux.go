package serve

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"syscall"
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
	// written are clients that have something to write.
	written []*socket
	events  [256]syscall.EpollEvent

	// back are clients that are busy no more. Whoever adds one while the loop sleeps
	// wakes it.
	mu     sync.Mutex
	back   []*socket
	asleep bool
	wakeup int // an eventfd
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
}

const (
	// readBytes is how much is read from a connection in a round, and arenaBytes how
	// much from all of them.
	readBytes  = 64 << 10
	arenaBytes = 8 << 20
	// polls is how often a loop looks for something to do before it lets its thread
	// sleep: waking it costs more than a few looks.
	polls = 20
	// unread is how many bytes of answers a client may leave unread before its requests
	// are left unread too.
	unread = 1 << 20
)

func (s *Server) serve(l *net.TCPListener) error {
	f, err := l.File()
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		return err
	}
	lp := &loop{w: newWorker(s), listen: fd, clients: map[int32]*socket{}, arena: make([]byte, arenaBytes)}
	if lp.ep, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return err
	}
	defer syscall.Close(lp.ep)
	if lp.wakeup, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return err
	}
	defer syscall.Close(lp.wakeup)
	for _, fd := range []int{fd, lp.wakeup} {
		if err := lp.control(syscall.EPOLL_CTL_ADD, fd, syscall.EPOLLIN); err != nil {
			return err
		}
	}
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

func (l *loop) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		n, err := l.wait()
		if err != nil {
			return fmt.Errorf("wait for clients: %w", err)
		}
		for i := range n {
			l.event(&l.events[i])
		}
		l.resumeAll()
		l.end()
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
			c.dirty(c.client)
		}
		if e.Events&^syscall.EPOLLOUT != 0 {
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
	}
	l.mu.Lock()
	l.asleep = len(l.back) == 0
	asleep := l.asleep
	l.mu.Unlock()
	if !asleep {
		return 0, nil
	}
	for {
		n, err := syscall.EpollWait(l.ep, l.events[:], -1)
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
		c.dirty(c.client)
		if c.gone {
			continue
		}
		if len(c.in) > 0 {
			l.takeOwn(c)
		}
		l.follow(c)
	}
}

// resume implements transport.
func (c *socket) resume(*client) {
	l := c.l
	l.mu.Lock()
	l.back = append(l.back, c)
	wake := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if wake {
		one := [8]byte{1}
		_, _ = syscall.Write(l.wakeup, one[:])
	}
}

// end ends a round: what was read is executed, and its memory is free again.
func (l *loop) end() {
	l.w.commit()
	l.used = 0
}

func (l *loop) accept() {
	for {
		fd, _, err := syscall.Accept4(l.listen, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		c := &socket{fd: fd, l: l, interest: syscall.EPOLLIN}
		c.client = l.w.s.newClient(c)
		if l.control(syscall.EPOLL_CTL_ADD, fd, c.interest) != nil {
			syscall.Close(fd)
			continue
		}
		l.clients[int32(fd)] = c
	}
}

func (l *loop) drop(c *socket) {
	if !c.gone {
		c.gone = true
		delete(l.clients, int32(c.fd))
		syscall.Close(c.fd)
	}
}

// read takes what has arrived at a connection.
func (l *loop) read(c *socket) {
	if c.busy || len(c.out.Bytes) > unread {
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
	case errno != 0 || n == 0:
		if c.pending > 0 {
			l.end()
		}
		l.drop(c)
		return
	}
	data := room[:n]
	if len(c.in) > 0 {
		c.in = append(c.in, data...)
		l.takeOwn(c)
		return
	}
	l.used += int(n)
	if rest := l.w.take(c.client, data); len(rest) > 0 {
		c.in = append(c.in, rest...)
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
// not read its answers, and room for these.
func (l *loop) follow(c *socket) {
	events := uint32(0)
	if !c.busy { // else its answers are another's
		if len(c.out.Bytes) <= unread {
			events |= syscall.EPOLLIN
		}
		if len(c.out.Bytes) > 0 && !c.waiting {
			events |= syscall.EPOLLOUT
		}
	}
	l.watch(c, events)
}

// dirty implements transport.
func (c *socket) dirty(*client) {
	if !c.waiting {
		c.waiting = true
		c.l.written = append(c.l.written, c)
	}
}

// flush writes what a client is answered, as much as it takes.
func (l *loop) flush(c *socket) {
	if c.busy || c.gone {
		return // it is another's now, and comes back
	}
	out := c.out.Bytes
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
	switch {
	case len(out) > 0:
		c.out.Bytes = append(c.out.Bytes[:0], out...)
	case cap(c.out.Bytes) > keepOut:
		c.out.Bytes = nil
	default:
		c.out.Bytes = c.out.Bytes[:0]
	}
	if c.closing && len(out) == 0 {
		l.drop(c)
		return
	}
	if len(out) > 0 || c.interest != syscall.EPOLLIN {
		l.follow(c)
	}
}
