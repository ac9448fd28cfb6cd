package store

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/wal"
)

// filesOf lists the files of a kind with something in them.
func filesOf(t *testing.T, disk *vfs.MemFS, dir string, keep func(string) bool) []string {
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

// flip changes one bit of a file.
func flip(t *testing.T, disk *vfs.MemFS, name string, rng *rand.Rand) (offset int) {
	p, err := disk.UnsafeGetFileDataBuffer(name)
	if err != nil {
		t.Fatal(err)
	}
	offset = rng.IntN(len(p))
	p[offset] ^= 1 << rng.IntN(8)
	return offset
}

// verdict opens a damaged disk and reads all of it: it returns the error it
// met, or nil if everything was as one of the models has it.
func verdict(t *testing.T, disk *vfs.MemFS, allowed ...model) (err error, right bool) {
	s, err := Open(tiny(disk))
	if err != nil {
		return err, true
	}
	defer func() { _ = s.Close() }()
	for _, m := range allowed {
		scan := m.compare(s, nil, nil, rand.IntN(2) == 0)
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

// A table that is cut off is refused by Open, and as damage: the one who sees it
// must learn to restore a backup.
func TestAFileThatIsMissingOrCutOffIsReportedAsDamage(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := mustOpen(t, tiny(disk))
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
			s, err := Open(tiny(image))
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
	var did counts
	for _, seed := range seeds(t, 1) {
		rng := newRNG(t, seed)
		disk := vfs.NewCrashableMem()
		s := mustOpen(t, tiny(disk))
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
			names := filesOf(t, c.disk, c.dir, c.keep)
			if len(names) == 0 {
				t.Errorf("%s: there are none", c.what)
				continue
			}
			for range max(4, 30/slow) {
				image := c.disk.CrashClone(vfs.CrashCloneCfg{})
				name := testDir + "/" + c.dir + "/" + names[rng.IntN(len(names))]
				at := flip(t, image, name, rng)
				err, right := verdict(t, image, c.allowed...)
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
	did.log(t)
}
