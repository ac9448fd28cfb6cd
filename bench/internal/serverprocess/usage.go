package serverprocess

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU is what the process has used of processors.
func (s *Server) CPU() time.Duration {
	var all time.Duration
	for _, used := range s.ThreadCPU() {
		all += used
	}
	return all
}

// ThreadCPU is what each thread of the process has used of processors. Where the kernel does not count it in
// nanoseconds, it is the process as one, in ticks of 10 ms.
func (s *Server) ThreadCPU() map[string]time.Duration {
	threads := map[string]time.Duration{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.cmd.Process.Pid))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		word, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(word, 10, 64)
		threads[filepath.Base(filepath.Dir(name))] = time.Duration(n)
	}
	if len(threads) == 0 {
		threads["all"] = s.tickedCPU()
	}
	return threads
}

// tickedCPU is what the process has used, by what every Linux counts.
func (s *Server) tickedCPU() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// The name of the program may have blanks: what follows it does not.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	ticks := 0
	for _, f := range fields[11:13] {
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// Memory is what the process has in memory, in bytes.
func (s *Server) Memory() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if kib, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(kib)[0])
			return n << 10
		}
	}
	return 0
}

const (
	// quietWindow is for how long a process is watched, and quietShare what it uses of a processor at most
	// when it is quiet.
	quietWindow = 20 * time.Millisecond
	quietShare  = 0.1
)

// WaitQuiet waits until what cpu counts hardly grows, so that what one window has left to do in the background does
// not fall into the next. It gives up after some windows: a server may always have something to do.
func WaitQuiet(cpu func() time.Duration, windows int) {
	for range windows {
		before := cpu()
		time.Sleep(quietWindow)
		if float64(cpu()-before) < quietShare*float64(quietWindow) {
			return
		}
	}
}
