package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

// state is the place of a walk, as it is written down.
type state struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Match  string `json:"match"`
	// Run is the run_id of the source: its cursors hold as long as that is the same.
	Run string `json:"run_id"`
	// TargetRun is that of the target, which may have lost what it had acknowledged when it
	// is another.
	TargetRun string `json:"target_run_id"`
	Cursor    uint64 `json:"cursor,string"`
	Report    Report `json:"report"`
}

// fresh is the state at the beginning of a walk.
func (r *run) fresh(ctx context.Context) state {
	s := state{Source: r.Source.String(), Target: r.Target.String(), Match: r.Match, Run: runID(ctx, r.source)}
	if !r.DryRun { // then there may be no target
		s.TargetRun = runID(ctx, r.target)
	}
	return s
}

// runID returns the run_id of a server, "" if it does not tell.
func runID(ctx context.Context, c *redis.Client) string {
	info, _ := c.Info(ctx, "server").Result()
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// found returns what an earlier run has written down, if it is of the same walk.
func (r *run) found() *state {
	was, err := readState(r.State)
	if err != nil || was == nil || r.DryRun {
		return nil
	}
	same := was.Source == r.state.Source && was.Target == r.state.Target && was.Match == r.state.Match
	alive := was.Run == r.state.Run && was.TargetRun == r.state.TargetRun
	told := was.Run != "" && was.TargetRun != ""
	if !same || !alive || !told || was.Cursor == 0 {
		return nil
	}
	return was
}

// readState reads a file, nil if there is none. One that is damaged is an error.
func readState(file string) (*state, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s is not the state of an import: %w", file, err)
	}
	return &s, nil
}

// CheckState refuses a file that is there and is not the state of the same import, before
// it is written over.
func CheckState(o Options) (resumes bool, err error) {
	was, err := readState(o.State)
	if err != nil || was == nil {
		return false, err
	}
	match := o.Match
	if match == "" {
		match = "*"
	}
	if was.Source != o.Source.String() || was.Target != o.Target.String() || was.Match != match {
		return false, fmt.Errorf("%s is of another import, of %s from %s to %s: finish that one, or name another file with --state",
			o.State, was.Match, was.Source, was.Target)
	}
	return true, nil
}

// remember writes the state down, as a whole or not at all, and removes it at the end.
func (r *run) remember() error {
	if r.State == "" || r.DryRun {
		return nil
	}
	if r.report.Complete {
		if err := os.Remove(r.State); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	r.state.Report = r.report
	data, err := json.MarshalIndent(r.state, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.State+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(r.State+".new", r.State)
}
