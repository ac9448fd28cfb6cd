package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"time"
)

// ManifestName is the file that says what the log must have. It is not among the
// segments if [Options.ManifestFS] is another directory: what happens to them does
// not happen to it.
const ManifestName = "LOG-MANIFEST"

const (
	manifestDraft   = ManifestName + ".new" // the manifest until it is synced and renamed
	manifestMagic   = 0x4d774c43            // "CLwM" in the file
	manifestVersion = 1
	manifestHeader  = 56
	manifestSlots   = 2

	// maxPeers bounds the peers of a manifest, and maxManifestSegments its segments: a slot is one
	// block, the unit of what a crash can tear.
	maxPeers            = 64
	maxManifestSegments = (blockBytes-manifestHeader)/8 - maxPeers
)

// manifest is what is known of the log outside of it. All of it must be true for as
// long as the manifest is the newest durable one.
type manifest struct {
	// generation counts the writes. The slot of one is generation mod 2.
	generation uint64
	// durable: the log was on stable storage up to here, so it cannot end before.
	durable Position
	// segments are segments that may hold acknowledged entries beyond durable. Each has its
	// name and all of its blocks durably.
	segments []manifestSegment
	// peers are the positions up to which the logs of other stores were durable.
	peers []Position
}

// manifestSegment is a segment as the manifest names it.
type manifestSegment struct {
	sequence uint32
	bytes    int
}

// putManifest writes a manifest into a slot.
func putManifest(b []byte, id [16]byte, m *manifest) {
	clear(b[:blockBytes])
	binary.LittleEndian.PutUint32(b, manifestMagic)
	binary.LittleEndian.PutUint32(b[8:], manifestVersion)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(m.segments)))
	copy(b[16:32], id[:])
	binary.LittleEndian.PutUint64(b[32:], m.generation)
	binary.LittleEndian.PutUint64(b[40:], uint64(m.durable))
	binary.LittleEndian.PutUint32(b[48:], uint32(len(m.peers)))
	rest := b[manifestHeader:]
	for _, s := range m.segments {
		binary.LittleEndian.PutUint32(rest, s.sequence)
		binary.LittleEndian.PutUint32(rest[4:], uint32(s.bytes/blockBytes))
		rest = rest[8:]
	}
	for _, p := range m.peers {
		binary.LittleEndian.PutUint64(rest, uint64(p))
		rest = rest[8:]
	}
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:blockBytes], castagnoli))
}

// parseManifest reads a slot. ok is false if it has none: its write was interrupted,
// or it is damaged.
func parseManifest(b []byte, id [16]byte) (m manifest, ok bool, err error) {
	if len(b) < blockBytes || binary.LittleEndian.Uint32(b) != manifestMagic ||
		crc32.Checksum(b[8:blockBytes], castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return m, false, nil
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != manifestVersion {
		return m, false, fmt.Errorf("%s: %w %d, this program knows %d", ManifestName, ErrVersion, v, manifestVersion)
	}
	if got := [16]byte(b[16:32]); got != id {
		return m, false, fmt.Errorf("%s: %w: it has identity %x, expected %x", ManifestName, ErrForeign, got, id)
	}
	named, peers := binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[48:])
	if named > maxManifestSegments || peers > maxPeers {
		return m, false, nil
	}
	m.generation = binary.LittleEndian.Uint64(b[32:])
	m.durable = Position(binary.LittleEndian.Uint64(b[40:]))
	rest := b[manifestHeader:]
	for range named {
		blocks := binary.LittleEndian.Uint32(rest[4:])
		m.segments = append(m.segments, manifestSegment{binary.LittleEndian.Uint32(rest), int(blocks) * blockBytes})
		rest = rest[8:]
	}
	for range peers {
		m.peers = append(m.peers, Position(binary.LittleEndian.Uint64(rest)))
		rest = rest[8:]
	}
	return m, true, nil
}

// hasSegment reports whether the manifest names a segment.
func (m *manifest) hasSegment(sequence uint32) bool {
	return slices.ContainsFunc(m.segments, func(n manifestSegment) bool { return n.sequence == sequence })
}

// manifestFS is the directory of the manifest.
func (l *Log) manifestFS() FS {
	if l.o.ManifestFS != nil {
		return l.o.ManifestFS
	}
	return l.o.FS
}

// readManifest opens the manifest and reads its newest slot. found is false if there
// is no such file, as in a directory of a program that kept none.
func (l *Log) readManifest() (found bool, err error) {
	names, err := l.manifestFS().List()
	if err != nil {
		return false, err
	}
	if slices.Contains(names, manifestDraft) {
		if err := l.manifestFS().Remove(manifestDraft); err != nil {
			return false, err
		}
	}
	if !slices.Contains(names, ManifestName) {
		if l.o.ManifestRequired {
			return false, &CorruptError{Segment: ManifestName, Reason: "the file is missing, and with it how far the log was durable"}
		}
		return false, nil
	}
	f, err := l.manifestFS().Open(ManifestName)
	if err != nil {
		return false, err
	}
	l.manifestFile = f // closed by Open if anything fails
	// What is read is built upon, as with segments.
	if err := errors.Join(f.Sync(), f.DropCache()); err != nil {
		return false, err
	}
	image := make([]byte, manifestSlots*blockBytes)
	n, err := f.ReadAt(image, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read %s: %w", ManifestName, err)
	}
	for at := 0; at < n; at += blockBytes {
		m, ok, err := parseManifest(image[at:n], l.o.ID)
		if err != nil {
			return false, err
		}
		if ok && (!found || m.generation > l.recorded.generation) {
			l.recorded, found = m, true
		}
	}
	if !found || n < len(image) {
		// A write of one slot leaves the other one as it is, so a crash leaves one at least.
		return found, &CorruptError{Segment: ManifestName, Reason: "it cannot be read, and with it how far the log was durable"}
	}
	return true, nil
}

// createManifest makes the file with both slots, so that no later write needs space.
// l.recorded is what it says.
func (l *Log) createManifest() error {
	dir := l.manifestFS()
	f, err := dir.Create(manifestDraft)
	if err != nil {
		return err
	}
	image := newAlignedBuffer(manifestSlots * blockBytes)
	putManifest(image[l.recorded.generation%manifestSlots*blockBytes:], l.o.ID, &l.recorded)
	_, err = f.WriteAt(image, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if l.manifestDamaged {
		if err := dir.Remove(ManifestName); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := dir.Rename(manifestDraft, ManifestName); err != nil {
		return err
	}
	if err := dir.SyncDir(); err != nil {
		return err
	}
	file, err := dir.Open(ManifestName)
	if err == nil {
		l.manifestFile = file
	}
	return err
}

// startManifest writes the first manifest of this Open: where the log ends, and no
// segment, because none was made ready yet. Only then may files get other names.
func (l *Log) startManifest() error {
	if l.manifestFile == nil {
		l.recorded.generation++
		l.recorded.durable, l.recorded.segments = l.durable, nil
		return l.createManifest()
	}
	return l.writeManifest()
}

// writeManifest writes the manifest as it has to be from here on, and returns when it is
// durable. A failure ends the log: which of two slots holds is then not known. l.mu
// is not held.
func (l *Log) writeManifest() error {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	peers := l.loadPeerEnds()
	l.mu.Lock()
	if l.failed != nil {
		defer l.mu.Unlock()
		return l.failed
	}
	m := manifest{generation: l.recorded.generation + 1, durable: l.durable, peers: peers}
	// The header of a later segment, once it is durable, speaks for those before it.
	l.manifestSegments = slices.DeleteFunc(l.manifestSegments, func(s *segment) bool { return s.sealed && l.durable.sequence() > s.sequence })
	for _, s := range l.manifestSegments {
		m.segments = append(m.segments, manifestSegment{s.sequence, s.bytes})
	}
	l.mu.Unlock()
	putManifest(l.manifestSlot, l.o.ID, &m)
	err := l.manifestFile.WriteDurable(l.manifestSlot, int64(m.generation%manifestSlots*blockBytes))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.setFailed(fmt.Errorf("write %s: %w", ManifestName, err))
		return l.failed
	}
	l.recorded = m
	l.counters.Manifests++
	return nil
}

// addToManifest adds a segment, which has its name and blocks durably, to the manifest. It
// may be written to when name has returned: from then on it is missed if it is gone.
func (l *Log) addToManifest(s *segment) error {
	l.mu.Lock()
	l.manifestSegments = append(l.manifestSegments, s)
	l.mu.Unlock()
	return l.writeManifest()
}

// removeFromManifest takes a segment out of the manifest, so that it may be renamed or removed.
// Mostly the manifest does not name it: it was sealed long ago. l.mu is not held.
func (l *Log) removeFromManifest(s *segment) error {
	l.mu.Lock()
	l.manifestSegments = slices.DeleteFunc(l.manifestSegments, func(n *segment) bool { return n == s })
	is := l.recorded.hasSegment(s.sequence)
	l.mu.Unlock()
	if !is {
		return nil
	}
	return l.writeManifest()
}

// dropUnbegunFromManifest leaves the segments that were made ready, but not begun, out of what the
// manifest says after a Close: nothing is lost with them. Nothing is appended any more.
func (l *Log) dropUnbegunFromManifest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return
	}
	l.manifestSegments = slices.DeleteFunc(l.manifestSegments, func(s *segment) bool {
		return !slices.Contains(l.segments, s)
	})
}

// PeerEnds returns the positions up to which, as the manifest has it, the logs of
// other stores were durable, in the order that WatchPeers gave.
func (l *Log) PeerEnds() []Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.recorded.peers)
}

// WatchPeers lets the manifest remember how far the logs of other stores are durable:
// ends returns that, for 64 logs at most, and is called in the background. Until then
// the manifest goes on to say what it said at Open.
func (l *Log) WatchPeers(ends func() []Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers = ends
}

// Durable returns the position up to which the log is on stable storage.
func (l *Log) Durable() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}

// loadPeerEnds returns what the next manifest says of peers. l.mu is not held: a peer's
// is taken.
func (l *Log) loadPeerEnds() []Position {
	l.mu.Lock()
	ends, recorded := l.peers, l.recorded.peers
	l.mu.Unlock()
	if ends == nil {
		return recorded
	}
	peers := ends()
	return peers[:min(len(peers), maxPeers)]
}

// isManifestStale reports whether the manifest says less than is known.
func (l *Log) isManifestStale() bool {
	peers := l.loadPeerEnds()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable != l.recorded.durable || !slices.Equal(peers, l.recorded.peers) ||
		l.closed && len(l.manifestSegments) < len(l.recorded.segments)
}

const (
	// minManifestPause and maxManifestPause bound the time between two writes of the manifest
	// in the background. Entries of that time are those whose loss at the log's end can be
	// taken for an interrupted write.
	minManifestPause = 100 * time.Millisecond
	maxManifestPause = time.Second
	// manifestTimeShare bounds what these writes take of the disk's time: one part in so many.
	manifestTimeShare = 50
)

// maxUnrecordedBytes is how many bytes of frames may be durable before the manifest is
// written without waiting for the pause to end.
func (l *Log) maxUnrecordedBytes() int { return max(l.o.SegmentBytes/8, 1<<20) }

// writeManifestInBackground is the goroutine that keeps the manifest fresh while there is
// traffic. No Append waits for it.
func (l *Log) writeManifestInBackground() {
	tick := l.o.ManifestTick
	var timer *time.Timer
	if tick == nil {
		timer = time.NewTimer(minManifestPause)
		defer timer.Stop()
		tick = timer.C
	}
	for {
		select {
		case <-l.stop:
			return
		case <-tick:
		case <-l.manifestSoon:
		}
		pause := maxManifestPause
		if l.isManifestStale() {
			begin := time.Now()
			if l.writeManifest() != nil {
				return // the failure is remembered, and returned to the next caller
			}
			pause = min(max(manifestTimeShare*time.Since(begin), minManifestPause), maxManifestPause)
		}
		if timer != nil {
			timer.Reset(pause)
		}
	}
}
