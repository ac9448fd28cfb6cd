package report

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
)

// Machine is where figures come from.
type Machine struct {
	CPU, OS, Go string
	Cores       int
	// Load is the system's load average before the run, or "unknown".
	Load string
}

// ThisMachine describes the machine that the program runs on.
func ThisMachine() Machine {
	m := Machine{
		CPU:   cpuModel(),
		OS:    runtime.GOOS + "/" + runtime.GOARCH,
		Go:    runtime.Version(),
		Cores: runtime.GOMAXPROCS(0),
		Load:  "unknown",
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(text), " ")
	}
	return m
}

// cpuModel asks Linux; elsewhere the architecture has to do.
func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// Commit returns the commit that is measured, marked if files differ from it.
// The results file itself does not count: a run is about to replace it.
func Commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	commit := strings.TrimSpace(string(head))
	changed, err := exec.Command("git", "status", "--porcelain", "--", ":/", ":(exclude,top)bench/RESULTS.md").Output()
	if err != nil || len(changed) > 0 {
		commit += " with uncommitted changes"
	}
	return commit
}

// Modules returns the versions of everything that is linked in, peers first
// of all, as module@version.
func Modules() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var out []string
	for _, m := range info.Deps {
		if m.Replace == nil { // the replaced one is the toolkit itself
			out = append(out, m.Path+"@"+m.Version)
		}
	}
	return out
}
