package wal

import (
	"encoding/binary"
	"hash/crc32"
)

// ProgressName is the file that says how far the log was durable when its last frame was written.
// It lies beside the manifest.
//
// At [Always] each durable frame is followed by a write to this file, before it is acknowledged,
// and never by a sync. So the file survives the end of the process, but for power failures there
// is the manifest: then this file may be old, unreadable or missing, and says nothing. It is a
// file of its own because the slots of the manifest are written past the page cache.
const ProgressName = "LOG-PROGRESS"

const (
	progressMagic = 0x50774c43 // "CLwP" in the file
	progressBytes = 32
)

// putProgress writes the progress.
func putProgress(b []byte, id [16]byte, durable Position) {
	binary.LittleEndian.PutUint32(b, progressMagic)
	copy(b[8:24], id[:])
	binary.LittleEndian.PutUint64(b[24:], uint64(durable))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:progressBytes], castagnoli))
}

// parseProgress reads the progress, zero if there is none that can be read.
func parseProgress(b []byte, id [16]byte) Position {
	if len(b) < progressBytes || binary.LittleEndian.Uint32(b) != progressMagic || [16]byte(b[8:24]) != id ||
		crc32.Checksum(b[8:progressBytes], castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return 0
	}
	return Position(binary.LittleEndian.Uint64(b[24:]))
}

// openProgress opens the file, or makes it, and returns what it says. Without it the log works
// too, so no error of it keeps the log from opening.
func (l *Log) openProgress() Position {
	dir := l.manifestFS()
	if f, err := dir.Open(ProgressName); err == nil {
		l.progressFile = f
		b := make([]byte, progressBytes)
		n, _ := f.ReadAt(b, 0)
		return parseProgress(b[:n], l.o.ID)
	}
	if f, err := dir.Create(ProgressName); err == nil {
		l.progressFile = f
	}
	return 0
}

// writeProgress notes that a frame is durable. Without it a tail that is lost after the end of the
// process looks like an interrupted write. Only the holder of the turn calls it.
func (l *Log) writeProgress(durable Position) {
	if l.progressFile == nil {
		return
	}
	putProgress(l.progress[:], l.o.ID, durable)
	_, _ = l.progressFile.WriteAt(l.progress[:], 0) // the manifest still holds
}
