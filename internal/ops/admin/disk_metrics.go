package admin

import (
	"io/fs"
	"path"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/diskspace"
)

// addDiskMetrics reports how full the disk is, and how old the newest backup. A store in memory has neither.
func (a *Admin) addDiskMetrics(m *metricSet) {
	if a.o.Data == "" {
		return
	}
	if free, size, err := diskspace.Measure(a.o.Data); err == nil {
		m.addSingle("disk_free_bytes", gauge, "What of the file system of the data is free for the server.", float64(free))
		m.addSingle("disk_size_bytes", gauge, "The size of that file system.", float64(size))
	}
	if why, _ := a.backupsDisabledReason(); why == "" {
		m.addSingle("backup_last_time_seconds", gauge, "When the newest complete backup was made; 0 if there is none.", a.newestBackup())
	}
}

// newestBackup is when the newest complete backup was made, in seconds since 1970; 0 if there is none.
func (a *Admin) newestBackup() (at float64) {
	root, err := a.openBackupDir(false)
	if err != nil || root == nil {
		return 0
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if checkBackupName(e.Name()) != nil {
			continue
		}
		if last, err := fs.Stat(root.FS(), path.Join(e.Name(), storesFile)); err == nil {
			at = max(at, float64(last.ModTime().UnixMilli())/1000)
		}
	}
	return at
}

// countRunning returns how many jobs are under way, and for how long one has not come further. One that waits for others
// of its own is as far as these are.
func countRunning(jobs []api.Job, now time.Time) (running int, unchanged time.Duration) {
	hasChild := map[string]bool{}
	for i := range jobs {
		if j := &jobs[i]; !j.HasEnded() {
			running++
			hasChild[j.Parent] = true
		}
	}
	for i := range jobs {
		if j := &jobs[i]; !j.HasEnded() && j.State != api.JobPaused && !hasChild[j.ID] {
			unchanged = max(unchanged, now.Sub(j.Changed))
		}
	}
	return running, unchanged
}
