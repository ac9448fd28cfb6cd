package serve

import (
	"fmt"
	"net"
	"runtime"
	"syscall"
	"unsafe"
)

// loop waits for many connections. It belongs to one goroutine, which stays on its
// thread.
type loop struct {
	w       *worker
	ep      int
	listen  int
	clients map[int32]*socket
	// arena is where what arrives in a round is read to. Requests point into it until
	// they are committed.
	arena []byte
	used  int
	// written are clients that have something to write.
	written []*socket
	events  [256]syscall.EpollEvent
}

// socket is a client of a loop.
type socket struct {
	*client
	fd      int
	l       *loop
	waiting bool // in written
	gone    bool
}

const (
	// readBytes is how much is read from a connection in a round, and arenaBytes how
	// much from all of them.
	readBytes  = 64 << 10
	arenaBytes = 8 << 20
	// polls is how often a loop looks for something to do before it lets its thread
	// sleep: waking it costs more than a few looks.
	polls = 20
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
	ep, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer syscall.Close(ep)
	lp := &loop{w: newWorker(s), ep: ep, listen: fd, clients: map[int32]*socket{}, arena: make([]byte, arenaBytes)}
	if err := lp.watch(fd, syscall.EPOLLIN); err != nil {
		return err
	}
	return lp.run()
}

func (l *loop) watch(fd int, events uint32) error {
	return syscall.EpollCtl(l.ep, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)})
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
			if fd := l.events[i].Fd; int(fd) == l.listen {
				l.accept()
			} else if c := l.clients[fd]; c != nil {
				l.read(c)
			}
		}
		l.end()
		for _, c := range l.written {
			c.waiting = false
			l.flush(c)
		}
		l.written = l.written[:0]
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
	for {
		n, err := syscall.EpollWait(l.ep, l.events[:], -1)
		if err != syscall.EINTR {
			return n, err
		}
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
		c := &socket{fd: fd, l: l}
		c.client = l.w.s.newClient(c)
		if l.watch(fd, syscall.EPOLLIN) != nil {
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
		rest := l.w.take(c.client, c.in)
		if len(rest) < len(c.in) {
			if c.pending > 0 {
				l.end() // what is staged points into it
			}
			c.in = append(c.in[:0], rest...)
		}
		return
	}
	l.used += int(n)
	if rest := l.w.take(c.client, data); len(rest) > 0 {
		c.in = append(c.in, rest...)
	} else if cap(c.in) > 0 {
		c.in = nil
	}
}

// dirty implements transport.
func (c *socket) dirty(*client) {
	if !c.waiting {
		c.waiting = true
		c.l.written = append(c.l.written, c)
	}
}

// resume implements transport.
func (c *socket) resume(*client) {}

// flush writes what a client is answered.
func (l *loop) flush(c *socket) {
	for len(c.out.Bytes) > 0 && !c.gone {
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(&c.out.Bytes[0])), uintptr(len(c.out.Bytes)))
		if errno == syscall.EAGAIN {
			runtime.Gosched()
			continue
		}
		if errno != 0 {
			l.drop(c)
			return
		}
		c.out.Bytes = c.out.Bytes[:copy(c.out.Bytes, c.out.Bytes[n:])]
	}
	if c.closing {
		l.drop(c)
	}
}
