package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// countKey has in each commit of a damaged store how many there were.
var countKey = []byte("count")

// damagedStore is a store as an unclean stop leaves it, with what was acknowledged.
type damagedStore struct {
	disk            *vfs.MemFS
	commits         [][]rowWrite
	positions       []wal.Position // of each commit
	recordedCommits int            // how many commits are noted outside of the segments, at least
}

// uncleanStop is how a store ends that is not closed.
type uncleanStop int

const (
	powerFailure        uncleanStop = iota // what was not synced is gone
	settledPowerFailure                    // the same, when the manifest knows of all that was acknowledged
	processKill                            // what the operating system was given is there
	uncleanStops
)

// makeDamagedStore fills a store over some segments, and stops it uncleanly.
func makeDamagedStore(t *testing.T, rng *rand.Rand, stop uncleanStop) *damagedStore {
	d := &damagedStore{disk: vfs.NewCrashableMem()}
	s := mustOpen(t, tinyOptions(d.disk))
	for i := range 2 + rng.IntN(120) {
		ws := []rowWrite{
			{countKey, fmt.Append(nil, i+1)},
			{fmt.Appendf(nil, "key%03d", rng.IntN(50)), bytes.Repeat([]byte{byte('a' + i%26)}, 1+rng.IntN(6000))},
		}
		pos, err := s.Commit(false, newEntry(encodeWrites(ws...)))
		if err != nil {
			t.Fatal(err)
		}
		d.commits, d.positions = append(d.commits, ws), append(d.positions, pos)
		if rng.IntN(100) == 0 { // what is damaged may have been opened several times
			mustClose(t, s)
			s = mustOpen(t, tinyOptions(d.disk))
		}
	}
	if stop == settledPowerFailure {
		eventually.Holds(t, "the manifest is fresh", func() bool { m := s.Metrics().Log; return m.Recorded == m.Durable })
	}
	recorded := s.Metrics().Log.Recorded
	survives := vfs.CrashCloneCfg{}
	if stop == processKill {
		survives = vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng}
		recorded = d.positions[len(d.positions)-1]
	}
	crashed := d.disk.CrashClone(survives)
	mustClose(t, s)
	d.disk = crashed
	for d.recordedCommits < len(d.positions) && d.positions[d.recordedCommits] <= recorded {
		d.recordedCommits++
	}
	return d
}

// modelAfter is what a store holds after so many commits.
func (d *damagedStore) modelAfter(commits int) model {
	m := model{}
	for _, ws := range d.commits[:commits] {
		m.apply(ws...)
	}
	return m
}

// countSurvivors opens the store and returns how many commits there are, all others being
// gone without a trace.
func (d *damagedStore) countSurvivors(disk *vfs.MemFS, accept bool) (commits int, err error) {
	o := tinyOptions(disk)
	o.AcceptLoss = accept
	s, err := Open(o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	v, _, err := s.Get(countKey, nil)
	if err != nil {
		return 0, err
	}
	if v != nil {
		if _, err := fmt.Sscan(string(v), &commits); err != nil {
			return 0, err
		}
	}
	return commits, d.modelAfter(commits).compareRows(s, nil, nil, false)
}

// damages change a file as accidents do. Each reports whether the change is of a kind
// that is always found, however fresh the manifest is.
var damages = []struct {
	name   string
	always bool
	do     func(p []byte, rng *rand.Rand) (changed []byte, name string)
}{
	{"truncate", true, func(p []byte, rng *rand.Rand) ([]byte, string) { return p[:rng.IntN(len(p))], "" }},
	{"empty", true, func([]byte, *rand.Rand) ([]byte, string) { return nil, "" }},
	{"delete", true, func([]byte, *rand.Rand) ([]byte, string) { return nil, "-" }},
	{"rename", true, func(p []byte, rng *rand.Rand) ([]byte, string) {
		return p, []string{"saved.bak", "000000ff.wal", "00000001.wal.old", "00000000.wal"}[rng.IntN(4)]
	}},
	{"zero the tail", false, func(p []byte, rng *rand.Rand) ([]byte, string) {
		clear(p[rng.IntN(usedBytes(p)):])
		return p, ""
	}},
	{"flip", false, func(p []byte, rng *rand.Rand) ([]byte, string) {
		p[rng.IntN(usedBytes(p))] ^= 1 << rng.IntN(8)
		return p, ""
	}},
}

// usedBytes is how many bytes of a file are not zeros behind all others, at least 1.
func usedBytes(p []byte) int { return max(1, len(bytes.TrimRight(p, "\x00"))) }

// damageFile damages one file: that of the log that has the last commit, or another, or
// what is noted beside it.
func damageFile(t *testing.T, disk *vfs.MemFS, last wal.Position, rng *rand.Rand) (what string, always bool) {
	dir := testDir + "/" + logDir
	names := listFiles(t, disk, logDir, func(n string) bool { return strings.HasSuffix(n, ".wal") })
	name := names[rng.IntN(len(names))]
	switch rng.IntN(10) {
	case 0:
		dir, name = testDir, wal.ManifestName
		if p, _ := readFile(disk, testDir+"/"+wal.ProgressName); len(p) > 0 && rng.IntN(3) == 0 {
			name = wal.ProgressName
		}
	case 1, 2, 3, 4, 5:
		name = last.String()[:8] + ".wal"
	}
	path := dir + "/" + name
	p, err := readFile(disk, path)
	if err != nil {
		t.Fatal(err)
	}
	d := damages[rng.IntN(len(damages))]
	changed, to := d.do(p, rng)
	if err := disk.Remove(path); err != nil {
		t.Fatal(err)
	}
	if to != "-" {
		if to != "" {
			path = dir + "/" + to
		}
		if err := writeDurable(disk, path, changed); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%s %s", d.name, name), d.always
}

// After an unclean stop a file of the log, or of what is noted beside it, is damaged from
// outside. Nothing acknowledged is missing without a word: Open refuses, or all of it is
// there. What was acknowledged between the last write of the manifest and a power failure may
// be taken for an interrupted write if its bytes were overwritten, and only then. With
// AcceptLoss the store opens with the commits before the damage, and from then on without it.
func TestLog_RandomDamage_IsRefusedOrHarmless(t *testing.T) {
	n := 160 / slowdown
	if os.Getenv("CLEAVE_SOAK") != "" {
		n = 2000
	}
	var did testCounts
	rng := newRNG(t, rand.Uint64()>>16)
	var d *damagedStore
	for i := range n {
		if i%8 == 0 {
			d = makeDamagedStore(t, rng, uncleanStop(i/8%int(uncleanStops)))
			if commits, err := d.countSurvivors(d.disk.CrashClone(vfs.CrashCloneCfg{}), false); err != nil || commits != len(d.commits) {
				t.Fatalf("without damage: %d of %d commits, %v", commits, len(d.commits), err)
			}
		}
		disk := d.disk.CrashClone(vfs.CrashCloneCfg{})
		what, always := damageFile(t, disk, d.positions[len(d.positions)-1], rng)
		kind := what[:strings.LastIndex(what, " ")]
		commits, err := d.countSurvivors(disk, false)
		switch {
		case err == nil && commits == len(d.commits):
			did.add(kind+": harmless", 1)
		case err == nil && !always && commits >= d.recordedCommits:
			did.add(kind+": taken for an interrupted write", 1)
		case err == nil:
			t.Errorf("%s: %d of %d acknowledged commits are there, %d are noted, and Open is content", what, commits, len(d.commits), d.recordedCommits)
		case !errors.Is(err, ErrCorrupt) && !errors.Is(err, wal.ErrForeign) && !errors.Is(err, wal.ErrVersion):
			t.Errorf("%s: %v", what, err)
		case errors.Is(err, ErrDataLoss):
			did.add(kind+": refused", 1)
			left, err := d.countSurvivors(disk, true)
			if err != nil {
				t.Errorf("%s: with AcceptLoss: %v", what, err)
			} else if again, err := d.countSurvivors(disk, false); err != nil || again != left {
				t.Errorf("%s: opened with AcceptLoss it has %d commits, and then %d, %v", what, left, again, err)
			}
		default:
			did.add(kind+": refused for good", 1)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	did.logAll(t)
}

func TestLogManifest_Missing_IsNoticedWhereThereWasOne(t *testing.T) {
	disk := vfs.NewMem()
	mustClose(t, mustOpen(t, tinyOptions(disk)))
	name := testDir + "/" + wal.ManifestName
	if err := disk.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(tinyOptions(disk)); !errors.Is(err, ErrDataLoss) || !strings.Contains(err.Error(), wal.ManifestName) {
		t.Errorf("without %s: %v", name, err)
	}
	// A directory of the format before has none, and gets one.
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	id := s.ID()
	mustClose(t, s)
	old := encodeFormat(oldestFormatVersion, id)
	disk = s.opts.FS.(*vfs.MemFS)
	if err := errors.Join(disk.Remove(name), writeDurable(disk, testDir+"/"+formatName, old)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, tinyOptions(disk)))
	text, err := readFile(disk, testDir+"/"+formatName)
	if _, statErr := disk.Stat(name); err != nil || statErr != nil || !bytes.Equal(text, encodeFormat(formatVersion, id)) {
		t.Errorf("FORMAT says %q, %v; the manifest: %v", text, err, statErr)
	}
}

// What is lost is said, and no position comes into use a second time.
func TestAcceptLoss_SaysWhatIsLost(t *testing.T) {
	d := makeDamagedStore(t, newRNG(t, 1), settledPowerFailure)
	names := listFiles(t, d.disk, logDir, func(n string) bool { return strings.HasSuffix(n, ".wal") })
	last := d.positions[len(d.positions)-1]
	i := slices.Index(names, last.String()[:8]+".wal")
	if err := d.disk.Remove(testDir + "/" + logDir + "/" + names[i]); err != nil {
		t.Fatal(err)
	}
	o := tinyOptions(d.disk)
	o.AcceptLoss = true
	var said []string
	o.Report = func(message string) { said = append(said, message) }
	s := mustOpen(t, o)
	text := strings.Join(said, "\n")
	for _, word := range []string{testDir, names[i], "behind position", last.String(), "bytes"} {
		if !strings.Contains(text, word) {
			t.Errorf("%q does not have %q", text, word)
		}
	}
	pos, err := s.Commit(false, newEntry(encodeWrites(rowWrite{[]byte("k"), []byte("v")})))
	if err != nil || pos <= last {
		t.Errorf("the log goes on at %s, but had been at %s: %v", pos, last, err)
	}
	mustClose(t, s)
	mustClose(t, mustOpen(t, tinyOptions(d.disk)))
}

// lossOf opens a damaged store with accepted loss, and returns what it reports and how many of the
// commits are there.
func (d *damagedStore) lossOf(t *testing.T, disk *vfs.MemFS) (text string, commits int) {
	t.Helper()
	switch commits, err := d.countSurvivors(disk, false); {
	case err == nil && commits == len(d.commits): // the end of a segment that was closed
		return "", commits
	case !errors.Is(err, ErrDataLoss):
		t.Fatalf("without accepted loss: %d of %d commits, %v", commits, len(d.commits), err)
	}
	o := tinyOptions(disk)
	o.AcceptLoss = true
	o.Report = func(message string) { text += message + "\n" }
	mustClose(t, mustOpen(t, o))
	commits, err := d.countSurvivors(disk, false)
	if err != nil {
		t.Fatal(err)
	}
	return text, commits
}

// changeSegment changes the bytes of the segment with the last commit.
func (d *damagedStore) changeSegment(t *testing.T, change func([]byte) []byte) *vfs.MemFS {
	t.Helper()
	disk := d.disk.CrashClone(vfs.CrashCloneCfg{})
	path := testDir + "/" + logDir + "/" + d.positions[len(d.positions)-1].String()[:8] + ".wal"
	p, err := readFile(disk, path)
	if err == nil {
		err = writeDurable(disk, path, change(p))
	}
	if err != nil {
		t.Fatal(err)
	}
	return disk
}

// A segment that is shorter than it must be may have lost something: the report gives what is known
// of it, and a bound that holds.
func TestAcceptLoss_ShortSegment_IsNeverReportedAsNoLoss(t *testing.T) {
	rng := newRNG(t, rand.Uint64()>>16)
	for i := range tally.Size(40, 10) {
		d := makeDamagedStore(t, rng, []uncleanStop{settledPowerFailure, powerFailure}[i%2])
		disk := d.changeSegment(t, func(p []byte) []byte {
			if i%5 == 0 {
				return nil
			}
			return p[:len(p)-1-rng.IntN(len(p)-1)]
		})
		text, commits := d.lossOf(t, disk)
		if text == "" {
			continue // the segment was closed, and nothing opened since
		}
		if i%2 == 1 && strings.Contains(text, "is lost is not known") {
			continue // the tables know of a segment that the manifest does not have: it can give no bound
		}
		last := d.positions[len(d.positions)-1]
		from, lost := wal.Position(0), int64(0) // of what was lost, in the last segment
		if commits > 0 {
			from = d.positions[commits-1]
		}
		if commits < len(d.commits) && from>>32 == last>>32 {
			lost = int64(last - from)
		}
		_, bound, _ := strings.Cut(text, "up to ")
		if strings.Contains(bound, " up to ") { // behind the lower bound
			bound = bound[strings.Index(bound, " up to ")+len(" up to "):]
		}
		var most int64
		if _, err := fmt.Sscan(bound, &most); err != nil || most < max(lost, 1) || strings.Contains(text, "nothing") {
			t.Errorf("%d of %d commits are left, %d bytes of log are gone: %q: bound %d, %v", commits, len(d.commits), lost, text, most, err)
		}
		if !strings.Contains(text, "other part of a transaction") {
			t.Errorf("%q does not warn of other stores", text)
		}
	}
}

// A segment that was made ready but never begun has nothing to lose. After a clean stop the manifest
// says so; after another it may have been begun.
func TestLog_UnbegunSegmentGone_IsRefusedAfterUncleanStopOnly(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, empty := range []bool{true, false} {
			disk := vfs.NewCrashableMem()
			s := mustOpen(t, tinyOptions(disk))
			var pos wal.Position
			for i := range 40 { // it is over the small first segment
				pos, _ = s.Commit(false, newEntry(encodeWrites(rowWrite{[]byte("k"), bytes.Repeat([]byte{byte(i)}, 5000)})))
			}
			eventually.Holds(t, "a segment is ready", func() bool { return s.Metrics().Log.Ready > 0 })
			crashed := disk.CrashClone(vfs.CrashCloneCfg{})
			mustClose(t, s)
			if !clean {
				disk = crashed
			}
			names := listFiles(t, disk, logDir, func(n string) bool { return strings.HasSuffix(n, ".wal") && n[:8] > pos.String()[:8] })
			if len(names) == 0 {
				all, _ := disk.List(testDir + "/" + logDir)
				for _, n := range all {
					if strings.HasSuffix(n, ".wal") && n[:8] > pos.String()[:8] {
						names = append(names, n)
					}
				}
			}
			if len(names) == 0 {
				t.Fatal("no segment is ready")
			}
			for _, n := range names {
				path := testDir + "/" + logDir + "/" + n
				err := disk.Remove(path)
				if err == nil && empty {
					err = writeDurable(disk, path, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			s, err := Open(tinyOptions(disk))
			switch {
			case clean && err != nil:
				t.Errorf("clean stop, emptied %v: %v", empty, err)
			case !clean && !errors.Is(err, ErrDataLoss):
				t.Errorf("unclean stop, emptied %v: %v", empty, err)
			}
			if err != nil {
				continue
			}
			if v, ok := mustGetRow(t, s, []byte("k")); !ok || len(v) != 5000 || v[0] != 39 {
				t.Errorf("the row is gone: %v", ok)
			}
			mustClose(t, s)
			mustClose(t, mustOpen(t, tinyOptions(disk)))
		}
	}
}

func TestEngineFiles_NewerFormat_IsReportedAsNewer(t *testing.T) {
	disk := vfs.NewMem()
	mustClose(t, mustOpen(t, tinyOptions(disk)))
	names := listFilesByPrefix(t, disk, formatMarker)
	from := testDir + "/" + dataDir + "/" + names[0]
	to := testDir + "/" + dataDir + "/" + formatMarker + "000099.099"
	if err := disk.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	_, err := Open(tinyOptions(disk))
	if !errors.Is(err, ErrFormat) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "newer version of Cleave") || !strings.Contains(err.Error(), "99") {
		t.Errorf("%v, want ErrFormat", err)
	}
}

func TestEngineFiles_DamagedOptions_DoNotKeepTheDataFromOpening(t *testing.T) {
	rng := newRNG(t, 1)
	for _, damage := range []func(p []byte) []byte{
		func([]byte) []byte { return nil },
		func([]byte) []byte { return []byte("nonsense\x00\xff") },
		func(p []byte) []byte { return bytes.Replace(p, []byte("comparer="), []byte("comparer=x"), 1) },
		func(p []byte) []byte { return p[:rng.IntN(len(p))] },
		func(p []byte) []byte { return bytes.Repeat([]byte{0}, len(p)) },
	} {
		disk := vfs.NewMem()
		s := mustOpen(t, tinyOptions(disk))
		mustCommit(t, s, rowWrite{[]byte("k"), []byte("v")})
		mustClose(t, s)
		name := testDir + "/" + dataDir + "/" + slices.Max(listFilesByPrefix(t, disk, optionsPrefix))
		p, err := readFile(disk, name)
		if err == nil {
			err = writeDurable(disk, name, damage(p))
		}
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		o := tinyOptions(disk)
		o.Report = func(message string) { said = append(said, message) }
		s, err = Open(o)
		if err != nil {
			t.Errorf("%q: %v", damage(p), err)
			continue
		}
		if v, ok := mustGetRow(t, s, []byte("k")); !ok || string(v) != "v" {
			t.Errorf("%q %v", v, ok)
		}
		mustClose(t, s)
		t.Logf("%q", said)
	}
}

// listFilesByPrefix lists the files of Pebble whose names begin with something.
func listFilesByPrefix(t *testing.T, disk *vfs.MemFS, prefix string) []string {
	names, err := disk.List(testDir + "/" + dataDir)
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) })
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s: %v", prefix, err)
	}
	return names
}

// listFiles lists the files of a kind with something in them.
func listFiles(t *testing.T, disk *vfs.MemFS, dir string, keep func(string) bool) []string {
	names, err := disk.List(testDir + "/" + dir)
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		info, err := disk.Stat(testDir + "/" + dir + "/" + n)
		return err != nil || info.Size() == 0 || !keep(n)
	})
	slices.Sort(names)
	return names
}

// flipBit changes one bit of a file.
func flipBit(t *testing.T, disk *vfs.MemFS, name string, rng *rand.Rand) (offset int) {
	p, err := disk.UnsafeGetFileDataBuffer(name)
	if err != nil {
		t.Fatal(err)
	}
	offset = rng.IntN(len(p))
	p[offset] ^= 1 << rng.IntN(8)
	return offset
}

// checkDamaged opens a damaged disk and reads all of it: it returns the error it
// met, or nil if everything was as one of the models has it.
func checkDamaged(t *testing.T, disk *vfs.MemFS, allowed ...model) (err error, right bool) {
	s, err := Open(tinyOptions(disk))
	if err != nil {
		return err, true
	}
	defer func() { _ = s.Close() }()
	for _, m := range allowed {
		scan := m.compareRows(s, nil, nil, rand.IntN(2) == 0)
		if scan == nil {
			return nil, true
		}
		if errors.Is(scan, ErrCorrupt) || errors.Is(scan, ErrFailed) {
			// Rows that are not damaged are served, and right.
			for k, want := range m {
				v, ok, err := s.Get([]byte(k), nil)
				if err == nil && (!ok || string(v) != want) {
					t.Errorf("Get %q: %.20q %v instead of %.20q", k, v, ok, want)
				}
			}
			return scan, true
		}
		err = scan
	}
	return err, false
}

// A table that is cut off is refused by Open, and as damage: the error
// must say to restore a backup.
func TestAFileThatIsMissingOrCutOffIsReportedAsDamage(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := mustOpen(t, tinyOptions(disk))
	rng := newRNG(t, 1)
	for range 50 {
		mustCommit(t, s, testWrites(rng, 50)...)
	}
	mustClose(t, s)
	for _, kind := range []string{".sst", "MANIFEST", "marker.manifest", "marker.format"} {
		names, err := disk.List(testDir + "/" + dataDir)
		if err != nil {
			t.Fatal(err)
		}
		names = slices.DeleteFunc(names, func(n string) bool { return !strings.Contains(n, kind) })
		if len(names) == 0 {
			t.Fatalf("there is no %s", kind)
		}
		name := testDir + "/" + dataDir + "/" + names[0]
		if kind == "MANIFEST" {
			name = testDir + "/" + dataDir + "/" + slices.Max(names)
		}
		for _, cut := range []bool{false, true} {
			image := disk.CrashClone(vfs.CrashCloneCfg{})
			if cut && kind != ".sst" {
				continue // what is cut off of the others looks like a crash
			}
			if err := image.Remove(name); err != nil {
				t.Fatal(err)
			}
			if cut {
				if err := writeDurable(image, name, []byte("cut")); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Open(tinyOptions(image))
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, cut off %v: Open: %v, want ErrCorrupt", name, cut, err)
			}
			if err == nil {
				_ = s.Close()
			}
		}
	}
}

func TestAFlippedBitIsReportedAndNeverServed(t *testing.T) {
	var did testCounts
	for _, seed := range testSeeds(t, 1) {
		rng := newRNG(t, seed)
		disk := vfs.NewCrashableMem()
		s := mustOpen(t, tinyOptions(disk))
		m, before := model{}, model{}
		for i := range 150 {
			ws := testWrites(rng, 150)
			if i == 149 {
				for k, v := range m {
					before[k] = v
				}
			}
			mustCommit(t, s, ws...)
			m.apply(ws...)
		}
		crashed := disk.CrashClone(vfs.CrashCloneCfg{})
		mustClose(t, s)
		closed := disk.CrashClone(vfs.CrashCloneCfg{})
		table := func(n string) bool { return strings.HasSuffix(n, ".sst") }
		manifest := func(n string) bool { return strings.HasPrefix(n, "MANIFEST") }
		all := func(string) bool { return true }
		for _, c := range []struct {
			what, dir string
			disk      *vfs.MemFS
			keep      func(string) bool
			allowed   []model
		}{
			{"log after a crash", logDir, crashed, all, []model{m, before}}, // the last frame may look torn
			{"log after Close", logDir, closed, all, []model{m}},
			{"tables after a crash", dataDir, crashed, table, []model{m}},
			{"tables after Close", dataDir, closed, table, []model{m}},
			{"manifest after Close", dataDir, closed, manifest, []model{m}},
		} {
			names := listFiles(t, c.disk, c.dir, c.keep)
			if len(names) == 0 {
				t.Errorf("%s: there are none", c.what)
				continue
			}
			for range max(4, 30/slowdown) {
				image := c.disk.CrashClone(vfs.CrashCloneCfg{})
				name := testDir + "/" + c.dir + "/" + names[rng.IntN(len(names))]
				at := flipBit(t, image, name, rng)
				err, right := checkDamaged(t, image, c.allowed...)
				switch {
				case !right:
					t.Errorf("%s: a flipped bit in %s at %d was served: %v", c.what, name, at, err)
				case err == nil:
					did.add(c.what+": harmless", 1)
				case errors.Is(err, ErrCorrupt):
					did.add(c.what+": reported as corrupt", 1)
				case errors.Is(err, wal.ErrForeign), errors.Is(err, wal.ErrVersion):
					did.add(c.what+": refused as another's", 1)
				default:
					t.Errorf("%s: %s at %d: reported without saying that it is damage: %v", c.what, name, at, err)
				}
			}
		}
	}
	did.logAll(t)
}
