// Package memlimit finds out how much memory the process may take: that of the machine, or the
// limit of its cgroup, of version 1 or 2, or of one of the cgroups above it.
package memlimit

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Limit is how much memory the process may take, in bytes; 0 if that is not known.
type Limit struct {
	// Machine is the memory of the machine, and Cgroup the least limit of the cgroups that the
	// process is in, 0 if they have none.
	Machine, Cgroup int64
}

// Bytes is the lesser of the two, 0 if none is known.
func (l Limit) Bytes() int64 {
	if l.Cgroup > 0 && (l.Machine == 0 || l.Cgroup < l.Machine) {
		return l.Cgroup
	}
	return l.Machine
}

// Read reads the limit from a file system with the files proc and sys of Linux, such as
// os.DirFS("/"). What cannot be read counts as no limit: a server starts without one, too.
func Read(root fs.FS) Limit {
	l := Limit{Machine: readMachineMemory(root)}
	paths := readCgroupPaths(root)
	for _, m := range listCgroupMounts(root) {
		where, in := paths[m.controller]
		if !in {
			continue
		}
		for _, dir := range m.listDirs(where) {
			if n := readLimitFile(root, path.Join(dir, m.file)); n > 0 && (l.Cgroup == 0 || n < l.Cgroup) {
				l.Cgroup = n
			}
		}
	}
	return l
}

// unlimited is from where on a number of version 1 means that there is no limit: it has no word
// for that.
const unlimited = 1 << 62

func readLimitFile(root fs.FS, name string) int64 {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil || n >= unlimited { // "max" is no number
		return 0
	}
	return n
}

func readMachineMemory(root fs.FS) int64 {
	for _, line := range readLines(root, "proc/meminfo") {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// readCgroupPaths returns the cgroups of the process by controller, that of version 2 under "".
func readCgroupPaths(root fs.FS) map[string]string {
	paths := map[string]string{}
	for _, line := range readLines(root, "proc/self/cgroup") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, controller := range strings.Split(f[1], ",") {
			if controller == "" || controller == "memory" {
				paths[controller] = f[2]
			}
		}
	}
	return paths
}

// cgroupMount is a place where cgroups are shown.
type cgroupMount struct {
	// root is the cgroup that is shown at point.
	root, point      string
	controller, file string
}

func listCgroupMounts(root fs.FS) (ms []cgroupMount) {
	for _, line := range readLines(root, "proc/self/mountinfo") {
		// 36 35 98:0 /root /point rw,noatime master:1 - type source options
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		m := cgroupMount{root: f[3], point: strings.TrimPrefix(f[4], "/")}
		switch {
		case g[0] == "cgroup2":
			m.file = "memory.max"
		case g[0] == "cgroup" && hasWord(g[2], "memory"):
			m.controller, m.file = "memory", "memory.limit_in_bytes"
		default:
			continue
		}
		ms = append(ms, m)
	}
	return ms
}

func hasWord(list, word string) bool {
	for _, w := range strings.Split(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// listDirs returns the directories of a cgroup and of all above it, as far as they are shown. In a
// container the cgroup may be named as the host does, while only its own is shown: then that
// is it.
func (m cgroupMount) listDirs(cgroup string) (dirs []string) {
	below := "/"
	if rest, ok := strings.CutPrefix(cgroup, strings.TrimSuffix(m.root, "/")); ok {
		below = path.Join("/", rest)
	}
	for {
		dirs = append(dirs, path.Join(m.point, below))
		if below == "/" {
			return dirs
		}
		below = path.Dir(below)
	}
}

func readLines(root fs.FS, name string) (all []string) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return nil
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		all = append(all, s.Text())
	}
	return all
}
