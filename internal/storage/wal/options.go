package wal

import (
	"errors"
	"fmt"
	"time"
)

// Durability specifies what an acknowledgement means.
type Durability int

const (
	// Always: an entry is on stable storage before Append returns.
	Always Durability = iota
	// EverySec: an entry is with the operating system before Append returns, and on
	// stable storage within about a second. The process may die without loss.
	EverySec
	// Never: as EverySec, but nothing waits for a clock: only much unsynced data,
	// rotation, Sync and Close sync.
	Never
)

// String returns the word for d in options and replies.
func (d Durability) String() string {
	switch d {
	case Always:
		return "always"
	case EverySec:
		return "everysec"
	case Never:
		return "no"
	}
	return fmt.Sprintf("Durability(%d)", int(d))
}

// ParseDurability is the inverse of String.
func ParseDurability(s string) (Durability, error) {
	for _, d := range []Durability{Always, EverySec, Never} {
		if s == d.String() {
			return d, nil
		}
	}
	return 0, fmt.Errorf("wal: unknown durability %q: use always, everysec or no", s)
}

// Options of a log. Only FS is required.
type Options struct {
	FS FS
	// ID is the identity of the store. It is in every segment, so that the log of
	// another store is refused.
	ID [16]byte
	// Durability is what an acknowledgement means. Default Always.
	Durability Durability

	// SegmentBytes is the size of a segment once much was written: segments begin at 256
	// KiB and grow with the log. Default 32 MiB: rotation and the consumer's work per
	// chunk are then rare against writes. A multiple of 4 KiB from 16 KiB to 1 GiB.
	SegmentBytes int
	// Chunks is how many images of segments are in memory. Append waits while all
	// are in use, which is how a slow consumer holds writers back. Default 4.
	Chunks int
	// Retain is how many bytes of segments are kept for ReadFrom after Recycle gave
	// them back. Default 64 MiB; negative keeps none.
	Retain int64
	// Reserve is how many segments are kept for urgent entries when the disk is
	// full. Default 1; negative keeps none.
	Reserve int
	// ZerosAreFree means that zeros take no room in FS until something else is written there, as in
	// memory. Then segments that were given back are removed, and new ones made, since the bytes
	// of the old ones would take room until they are used.
	ZerosAreFree bool
	// MinFree is how many bytes of the disk the log leaves to others: with less than
	// that the disk counts as full. Default 0.
	MinFree int64
	// Restored means that the directory may be empty although from is not zero, as in
	// a restored backup that has no log yet. The log then begins behind from.
	// Otherwise that is a gap.
	Restored bool

	// ManifestFS is the directory of the manifest. Default FS; a directory of its own
	// keeps it from what happens to the segments.
	ManifestFS FS
	// ManifestRequired means that the directory had a manifest: then it is damage if there
	// is none. Otherwise a directory without one is of a program that kept none.
	ManifestRequired bool
	// AcceptLoss, if set, lets Open open a damaged log with what is left of it, and is
	// called with what is lost. Segments behind the damage stay beside the others, with
	// the suffix .lost. What is of another store, or of a newer format, is still refused.
	AcceptLoss func(Loss)

	// Publish is called in log order, one call at a time, after the frame is
	// committed and before its Append returns. It must not call Append, Sync or
	// Close. The slice is valid during the call; the payloads as long as the chunk
	// is retained.
	Publish func(*Chunk, []Entry)
	// Seal is called in log order after the last Publish of a chunk, when everything
	// in it is durable: when the chunk is full, at Close, and for a replayed segment.
	// The chunk's first reference passes to the callee, which must Release it; nil
	// releases at once. It must not call Append, Sync or Close.
	Seal func(*Chunk)

	// Tick drives the sync of EverySec. Default: once a second.
	Tick <-chan time.Time
	// ManifestTick drives the manifest's writes in the background. Default: ten times a
	// second while there is traffic, or less often where that would take more than a
	// fiftieth of the disk's time.
	ManifestTick <-chan time.Time
}

// firstSegmentBytes is the size of a new log's segments: small, so that a store of little takes
// little room, and opening an empty directory does not wait for a whole segment of zeros.
const firstSegmentBytes = 256 << 10

func (o Options) withDefaults() (Options, error) {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 32 << 20
	}
	if o.Chunks == 0 {
		o.Chunks = 4
	}
	if o.Retain == 0 {
		o.Retain = 64 << 20
	}
	if o.Reserve == 0 {
		o.Reserve = 1
	}
	o.Retain, o.Reserve = max(o.Retain, 0), max(o.Reserve, 0)
	var errs []error
	if o.FS == nil {
		errs = append(errs, errors.New("no FS: use wal.OS(dir)"))
	}
	if _, err := ParseDurability(o.Durability.String()); err != nil {
		errs = append(errs, err)
	}
	if o.SegmentBytes%blockBytes != 0 || o.SegmentBytes < 4*blockBytes || o.SegmentBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("option SegmentBytes %d: must be a multiple of 4096 from 16 KiB to 1 GiB", o.SegmentBytes))
	}
	if o.Chunks < 1 {
		errs = append(errs, fmt.Errorf("option Chunks %d: must be at least 1", o.Chunks))
	}
	if o.Reserve >= maxReady {
		errs = append(errs, fmt.Errorf("option Reserve %d: must be less than %d", o.Reserve, maxReady))
	}
	if o.MinFree < 0 {
		errs = append(errs, fmt.Errorf("option MinFree %d: must not be negative", o.MinFree))
	}
	if len(errs) > 0 {
		return o, fmt.Errorf("wal: %w", errors.Join(errs...))
	}
	return o, nil
}
