package mover

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// exampleJob is a job with something in every field.
func exampleJob() Job {
	labels, _ := partition.ParseLabels("store=2")
	return Job{
		ID: 7, Kind: Move, Phase: Copying, Rev: 12, Round: 11, Parent: 3, JobFloor: 2, Shard: 5, Right: 6, Expect: 4, ExpectRight: 2,
		Span: partition.Span{Start: positionOf("a"), End: positionOf("b")}, In: &testKeyspace, At: []partition.Position{positionOf("a1")},
		From: 1, To: 3, Local: false, SourceRanges: []ownership.Range{{Span: partition.Span{Start: positionOf("a"), End: positionOf("b")}, Version: 4, State: ownership.Serving}},
		Attempt: 2, Freezes: 1, BasePosition: 1 << 33, CopiedUpTo: 1<<33 + 5, VerifiedUpTo: 1<<33 + 1, EndPosition: 1<<33 + 9, Cursor: []byte{1, 2},
		VersionFloor: 99, ClockFloorMS: 1000, Groups: []partition.GroupID{1}, Labels: []partition.Labels{labels}, TargetGroups: 3, Parallel: 2, MarkedGroups: []partition.GroupID{1},
		Paused: true, Undo: false, Recopy: true, Throttle: 1 << 20, NotBeforeMS: -5, Reason: "weather",
		Plan:      Price{Rows: 1, Bytes: 2, Moves: 1, Splits: 9, DurationMS: 3, PauseMS: 4, Before: Skew{1.5, 2}, After: Skew{1, 1}},
		Cost:      Cost{Rows: 1, Bytes: 2, DroppedRows: 3, CatchUpRounds: 4, PauseMS: 5, LongestPauseMS: 6, Children: 7, Splits: 8},
		CreatedMS: 1, ChangedMS: 2, EndedMS: 0, FrozenMS: 3,
	}
}

func TestARecordHasEveryFieldOfAJob(t *testing.T) {
	j := exampleJob()
	v := reflect.ValueOf(j)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() && name != "Local" && name != "Version" && name != "Undo" && name != "EndedMS" {
			t.Errorf("the example has no %s", name)
		}
	}
	// Those that cannot go together with the others.
	done := j
	done.Phase, done.Local, done.Version, done.Undo, done.EndedMS = Done, true, 9, true, 8
	for _, want := range []Job{j, done} {
		got, err := DecodeRecord(want.AppendRecord(nil))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n%+v\n%+v", err, got, want)
		}
	}
}

// goldenRecord is the example as format 2 has it, but for its first byte and its last
// field, which the first format did not have.
const goldenRecord = "0703060c0b03020506040204016100010401620001010104746573740100000105016131000101030000010401610001040162000104010000000201808080802085808080208180808020898080802002010263d00f0101010773746f72653d32030201000180804009077765617468657201020109060880808080808080fc3f80808080808080804080808080808080f83f80808080808080f83f0102030407080a0c02040006"

func TestRecordsStayAsTheyAreWritten(t *testing.T) {
	j := exampleJob()
	if got, want := hex.EncodeToString(j.AppendRecord(nil)), "02"+goldenRecord+"0101"; got != want {
		t.Errorf("the example is written as\n%s\nand was written as\n%s", got, want)
	}
}

func TestRecordsOfTheFirstFormatCanBeRead(t *testing.T) {
	b, err := hex.DecodeString("01" + goldenRecord)
	if err != nil {
		t.Fatal(err)
	}
	want := exampleJob()
	want.MarkedGroups = nil
	if got, err := DecodeRecord(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
	groups := []partition.GroupID{3, 4}
	labels := make([]partition.Labels, 2)
	// They do not name the job that has marked each group: all are taken back that may be the
	// job's, as it was done then.
	for name, c := range map[string]struct {
		job  Job
		want []partition.GroupID
	}{
		"has changed the map":    {Job{Kind: Regroup, Phase: Stopping, Version: 7, Groups: groups}, groups},
		"has not":                {Job{Kind: Regroup, Phase: Stopping, Groups: groups}, nil},
		"has added these groups": {Job{Kind: Regroup, Phase: Stopping, Version: 7, Groups: groups, Labels: labels}, nil},
	} {
		got, err := DecodeRecord(c.job.appendFormat(nil, firstFormat))
		if err != nil || !slices.Equal(got.MarkedGroups, c.want) {
			t.Errorf("one that %s has marked %v, want %v: %v", name, got.MarkedGroups, c.want, err)
		}
	}
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	j := exampleJob()
	good := j.AppendRecord(nil)
	for n := range good {
		if _, err := DecodeRecord(good[:n]); !errors.Is(err, ErrBadRecord) {
			t.Fatalf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	if _, err := DecodeRecord(append(bytes.Clone(good), 0)); !errors.Is(err, ErrBadRecord) {
		t.Error("a byte more is read")
	}
	for name, damage := range map[string]func(*Job){
		"a phase that does not exist":        func(j *Job) { j.Phase = 99 },
		"a kind that does not exist":         func(j *Job) { j.Kind = 9 },
		"a copy of nothing":                  func(j *Job) { j.SourceRanges = nil },
		"a release without a decision":       func(j *Job) { j.Phase = Releasing },
		"a decision that was never made":     func(j *Job) { j.Version = 3 },
		"a freeze without a number":          func(j *Job) { j.Phase, j.Freezes = Freezing, 0 },
		"a phase of jobs of another kind":    func(j *Job) { j.Phase = Surveying },
		"a merge that has found one shard":   func(j *Job) { j.Kind = Merge },
		"a phase of a move in a split":       func(j *Job) { j.Kind = Split },
		"a phase of a move in a local move":  func(j *Job) { j.Local = true },
		"a phase of a move in a drain":       func(j *Job) { j.Kind = Drain },
		"a range in a state that is unknown": func(j *Job) { j.SourceRanges[0].State = 9 },
	} {
		bad := exampleJob()
		damage(&bad)
		if _, err := DecodeRecord(bad.AppendRecord(nil)); !errors.Is(err, ErrBadRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	j := exampleJob()
	f.Add(j.AppendRecord(nil))
	j.Phase, j.Version = Done, 3
	f.Add(j.AppendRecord(nil))
	f.Add(j.appendFormat(nil, firstFormat))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := DecodeRecord(b)
		if err != nil {
			return
		}
		if again := j.appendFormat(nil, b[0]); !bytes.Equal(again, b) {
			t.Fatalf("%x is read and written as %x", b, again)
		}
		// What was read is acted upon: it must not bring anything down.
		PendingEffects(j)
		Step(j, Timeout{}, 1<<40)
		_, _, _ = Cancel(j, 1)
	})
}

func TestAnyBytesAreReadBackOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := exampleJob()
		b := j.AppendRecord(nil)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "where")] = rapid.Byte().Draw(t, "byte")
		}
		read, err := DecodeRecord(b)
		if err == nil && !bytes.Equal(read.appendFormat(nil, b[0]), b) {
			t.Fatalf("%x is read as something else", b)
		}
		if err == nil {
			PendingEffects(read)
		}
	})
}
