package conn

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// loops are the loops of one listener. The first accepts connections, and places each on the loop that has the fewest
// of those that are used. A loop that stays busier than another gives it clients: see shareWork.
type loops struct {
	set *Set
	all []*loop
	// used is how many loops have clients, the first ones. The first loop plans that: see planLoops.
	used    atomic.Int32
	planner LoopPlanner
	idle    idleMeter
}

// ServeLoops serves connections of TCP by as many loops as [Set.Loops] says.
func (s *Set) ServeLoops(l *net.TCPListener) error {
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
	g := &loops{set: s}
	g.used.Store(int32(max(1, s.Loops)))
	if s.AutomaticLoops {
		g.used.Store(1)
	}
	s.usedLoops.Store(g.used.Load())
	defer func() {
		for _, lp := range g.all {
			lp.closeFiles()
		}
	}()
	for i := range max(1, s.Loops) {
		lp, err := g.newLoop(i)
		if err == nil && i == 0 {
			lp.listenFD = fd
			err = lp.controlEpoll(syscall.EPOLL_CTL_ADD, fd, syscall.EPOLLIN)
		}
		if err != nil {
			return err
		}
	}
	return g.run()
}

// newLoop adds a loop.
func (g *loops) newLoop(index int) (l *loop, err error) {
	l = &loop{set: g.set, peers: g, index: index, e: g.set.newExecutor(true), epoll: -1, wakeFD: -1, listenFD: -1, clients: map[int32]*socket{}, arena: make([]byte, arenaBytes)}
	g.all = append(g.all, l)
	if l.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return l, err
	}
	if l.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return l, err
	}
	return l, l.controlEpoll(syscall.EPOLL_CTL_ADD, l.wakeFD, syscall.EPOLLIN)
}

// closeFiles closes what a loop waits with. No goroutine wakes it any more.
func (l *loop) closeFiles() {
	for _, fd := range []int{l.epoll, l.wakeFD} {
		if fd >= 0 {
			syscall.Close(fd)
		}
	}
}

// run runs all loops until the server is closed, or one of them fails.
func (g *loops) run() error {
	ctx, cancel := context.WithCancel(g.set.ctx)
	defer cancel()
	errs := make([]error, len(g.all))
	var running sync.WaitGroup
	for i, l := range g.all {
		l.ctx = ctx
		running.Go(func() {
			defer cancel()
			errs[i] = l.run()
		})
	}
	<-ctx.Done()
	for _, l := range g.all {
		l.wakeWith(func() {})
	}
	running.Wait()
	for _, l := range g.all {
		l.closeAll()
	}
	for _, err := range errs {
		if !errors.Is(err, ErrClosed) {
			return err
		}
	}
	return ErrClosed
}

// placeClient gives a client that was accepted to the loop with the fewest connections.
func (l *loop) placeClient(c *socket) {
	to := l
	for _, other := range l.peers.all[:l.peers.used.Load()] {
		if other.connections.Load() < to.connections.Load() {
			to = other
		}
	}
	to.connections.Add(1)
	if to == l {
		l.adoptClient(c)
		return
	}
	l.handOver(c, to)
}

// moveClient moves a client that is idle to another loop.
func (l *loop) moveClient(c *socket, to *loop) {
	_ = l.controlEpoll(syscall.EPOLL_CTL_DEL, c.fd, 0) // it is among those of the loop
	delete(l.clients, int32(c.fd))
	l.connections.Add(-1)
	to.connections.Add(1)
	l.set.MovedConnections.Add(1)
	l.handOver(c, to)
}

// handOver makes another loop the owner of a client. Whoever finds it there has found the client among the adopted: so
// nothing is done for the client before it is adopted.
func (l *loop) handOver(c *socket, to *loop) {
	to.wakeWith(func() {
		c.l.Store(to)
		to.mail.adopted = append(to.mail.adopted, c)
	})
}

// adoptClient begins to wait for a client that the loop was given.
func (l *loop) adoptClient(c *socket) {
	c.session.SetExecutor(l.e)
	c.Status.Loop.Store(int32(l.index))
	c.interest, c.work, c.adoptedAt = syscall.EPOLLIN, 0, l.periodsDone
	l.clients[int32(c.fd)] = c
	if l.controlEpoll(syscall.EPOLL_CTL_ADD, c.fd, c.interest) != nil {
		l.dropClient(c)
	}
}

// isMovable reports whether nothing of a client is under way, so that it may be moved between two rounds.
func (c *socket) isMovable() bool {
	return !c.Busy && c.Staged == 0 && !c.isDirty && !c.dropped && !c.Closing && !c.Stalled && !c.halfClosed &&
		len(c.In) == 0 && len(c.Out.Bytes) == 0 && !c.session.HasBacklog()
}

// workMeter is how long a loop was busy in its last period, and how long its thread was on a processor. Others read it.
type workMeter struct{ busy, thread, endedAt atomic.Int64 } // nanoseconds of the clock of the loops

// in returns both of the period that ends now: nothing if the loop has slept for longer.
func (m *workMeter) in(period time.Duration, now time.Duration) (busy, thread time.Duration) {
	if now-time.Duration(m.endedAt.Load()) > 2*period {
		return 0, 0
	}
	return time.Duration(m.busy.Load()), time.Duration(m.thread.Load())
}

// minResidence is how many periods a client stays with a loop at least: its work is measured anew there.
const minResidence = 3

// shareWork ends a period: it publishes how busy the loop was, and moves clients if the others were less busy.
func (l *loop) shareWork(now time.Duration) {
	took := now - l.periodBegan
	period := l.set.WorkPeriod
	thread := threadTime()
	l.meter.busy.Store(int64(float64(l.busy) * float64(period) / float64(took)))
	l.meter.thread.Store(int64(float64(thread-l.threadBegan) * float64(period) / float64(took)))
	l.meter.endedAt.Store(int64(now))
	l.busy, l.periodBegan, l.threadBegan = 0, now, thread
	l.periodsDone++
	w := Work{Period: period, Own: l.index, Busy: make([]time.Duration, len(l.peers.all))}
	use := Use{Period: period, Periods: int(took / period)}
	for i, other := range l.peers.all {
		busy, thread := other.meter.in(period, now)
		w.Busy[i] = busy
		use.Thread += thread
	}
	if l.index == 0 && l.set.AutomaticLoops {
		use.Busy, use.Idle = w.Busy[:l.peers.used.Load()], l.peers.idle.take(took)*period/took
		l.peers.used.Store(int32(l.peers.planner.Step(use, len(l.peers.all))))
		l.set.usedLoops.Store(l.peers.used.Load())
	}
	w.Used = int(l.peers.used.Load())
	var movable []*socket
	for _, c := range l.clients {
		w.Total += c.work
		if c.isMovable() && (l.periodsDone-c.adoptedAt >= minResidence || l.index >= w.Used) {
			movable, w.Clients = append(movable, c), append(w.Clients, c.work)
		}
		c.work = 0
	}
	for _, m := range l.set.PlanMoves(w) {
		l.moveClient(movable[m.Client], l.peers.all[m.To])
	}
}

// idleMeter measures how long the processors of the machine had nothing to do. It belongs to one loop.
type idleMeter struct{ idle, own time.Duration }

// take returns for how long processors had nothing to do that this process may use since the last call, which was so
// long ago.
func (m *idleMeter) take(passed time.Duration) time.Duration {
	last := *m
	var use syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &use) // it fails for wrong arguments alone
	m.own = time.Duration(use.Utime.Nano() + use.Stime.Nano())
	left := time.Duration(runtime.GOMAXPROCS(0))*passed - (m.own - last.own)
	// The second number is the sum of all processors, in seconds, without what they wait for disks.
	text, err := os.ReadFile("/proc/uptime")
	_, idleText, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	seconds, parseErr := strconv.ParseFloat(idleText, 64)
	if err == nil && parseErr == nil {
		m.idle = time.Duration(seconds * float64(time.Second))
		left = min(left, m.idle-last.idle)
	}
	return max(0, left)
}

// threadTime is how long the thread was on a processor.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // it fails for wrong arguments alone
	return time.Duration(t.Nano())
}
