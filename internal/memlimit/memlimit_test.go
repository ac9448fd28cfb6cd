package memlimit

import (
	"os"
	"runtime"
	"testing"
	"testing/fstest"
)

const (
	mib = 1 << 20

	v2Mounts = "25 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	v1Mounts = "30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n" +
		"31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
	machineOf4GiB = "MemTotal:        4194304 kB\nMemFree: 1 kB\n"
)

func makeFileTree(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestRead_FindsTheLeastLimit(t *testing.T) {
	for name, c := range map[string]struct {
		files           map[string]string
		machine, cgroup int64
	}{
		"nothing is known": {nil, 0, 0},
		"no cgroups":       {map[string]string{"proc/meminfo": machineOf4GiB}, 4096 * mib, 0},
		"version 2, its own": {map[string]string{
			"proc/meminfo": machineOf4GiB, "proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2Mounts,
			"sys/fs/cgroup/memory.max": "2147483648\n",
		}, 4096 * mib, 2048 * mib},
		"version 2, one above it has less": {map[string]string{
			"proc/self/cgroup": "0::/a/b/c\n", "proc/self/mountinfo": v2Mounts,
			"sys/fs/cgroup/a/memory.max": "104857600\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/c/memory.max": "209715200\n",
		}, 0, 100 * mib},
		"version 2, no limit": {map[string]string{
			"proc/meminfo": machineOf4GiB, "proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": v2Mounts, "sys/fs/cgroup/a/memory.max": "max\n",
		}, 4096 * mib, 0},
		"version 1": {map[string]string{
			"proc/self/cgroup":                               "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n",
			"proc/self/mountinfo":                            v1Mounts,
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes":   "314572800\n",
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0, 300 * mib},
		"version 1, a container that sees only its own": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/docker/0123\n",
			"proc/self/mountinfo":                        "30 25 0:26 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
		}, 0, 256 * mib},
		"version 1, a container in a container": {map[string]string{
			"proc/self/cgroup":                              "4:memory:/docker/0123/in\n",
			"proc/self/mountinfo":                           "30 25 0:26 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":    "268435456\n",
			"sys/fs/cgroup/memory/in/memory.limit_in_bytes": "134217728\n",
		}, 0, 128 * mib},
		"both, the memory is with version 1": {map[string]string{
			"proc/self/cgroup":                             "4:memory:/a\n0::/b\n",
			"proc/self/mountinfo":                          v1Mounts + "40 25 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "134217728\n",
		}, 0, 128 * mib},
		"files without sense": {map[string]string{
			"proc/meminfo": "MemTotal:\n", "proc/self/cgroup": "no\n0::\n", "proc/self/mountinfo": "no - no\n" + v2Mounts, "sys/fs/cgroup/memory.max": "much\n",
		}, 0, 0},
	} {
		got := Read(makeFileTree(c.files))
		if got.Machine != c.machine || got.Cgroup != c.cgroup {
			t.Errorf("%s: %+v, want %d and %d", name, got, c.machine, c.cgroup)
		}
	}
}

func TestLimit_BytesIsTheLesser(t *testing.T) {
	for l, want := range map[Limit]int64{{}: 0, {Machine: 2}: 2, {Cgroup: 3}: 3, {Machine: 2, Cgroup: 3}: 2, {Machine: 3, Cgroup: 2}: 2} {
		if got := l.Bytes(); got != want {
			t.Errorf("%+v: %d, want %d", l, got, want)
		}
	}
}

func TestRead_KnowsThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has these files")
	}
	if l := Read(os.DirFS("/")); l.Machine < mib {
		t.Errorf("this machine has %d bytes", l.Machine)
	}
}
