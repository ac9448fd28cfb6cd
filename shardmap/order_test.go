//go:build linux || darwin

package shardmap

import (
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"
)

// The order of two stores cannot be seen from outside but by a lucky reader.
// These tests stop a writer between them instead: a bucket lies across two
// pages, and the writer faults when it comes to the one it may not touch.

type bucketWords [8]uint64

// runInterrupted runs write on a bucket whose first words are on the one page and
// the others on the next. Page number closed may not be touched. It returns
// what the bucket was when write came there.
func runInterrupted(t *testing.T, before bucketWords, first, closed int, write func(bucket unsafe.Pointer)) (after bucketWords) {
	t.Helper()
	if unsafe.Sizeof(uintptr(0)) != wordBytes {
		t.Skip("the words are those of 64-bit machines")
	}
	page := syscall.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	defer syscall.Munmap(memory)
	// The write barrier of a running collection would touch the slot as well.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	bucket := unsafe.Pointer(&memory[page-first*wordBytes])
	*(*bucketWords)(bucket) = before
	part := memory[closed*page:][:page]
	if err := syscall.Mprotect(part, syscall.PROT_NONE); err != nil {
		t.Skip(err)
	}
	if !doesFault(func() { write(bucket) }) {
		t.Error("the writer never came to the closed page")
	}
	if err := syscall.Mprotect(part, syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	return *(*bucketWords)(bucket)
}

func doesFault(f func()) (did bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { did = recover() != nil }()
	f()
	return did
}

// A reader that believes in an older tag of the slot finds the entry as soon
// as the pointer is there. Then no other reader may miss it for want of a tag.
func TestAnEntryIsTaggedBeforeItCanBeFound(t *testing.T) {
	const slot, hash = 3, 0x15
	cursor := func(bucket unsafe.Pointer) *entryCursor {
		return &entryCursor{hash: hash, bucket: bucket, slot: slot}
	}
	entry := unsafe.Pointer(&valueBox[int, int]{})
	after := runInterrupted(t, bucketWords{}, 2, 1, func(b unsafe.Pointer) { cursor(b).insert(entry) })
	if tag := after[headerWord] >> (8 * slot) & 0xff; tag != computeTag(hash) {
		t.Errorf("insert came to the pointer when the tag was %#x, want %#x", tag, computeTag(hash))
	}
	present := bucketWords{headerWord: computeTag(hash) << (8 * slot), linkWord + slot: 1}
	after = runInterrupted(t, present, 2, 0, func(b unsafe.Pointer) { cursor(b).remove() })
	if after[linkWord+slot] != 0 {
		t.Error("remove came to the tag when the pointer was still there")
	}
}

func TestAWordIsWholeBeforeItsSlotIsOccupied(t *testing.T) {
	const slot, key, value = 1, 7, 8
	for first, part := range map[int]string{2: "key", 2 + wordSlots: "value"} {
		after := runInterrupted(t, bucketWords{}, first, 1, func(b unsafe.Pointer) {
			c := wordCursor{bucket: (*wordBucket)(b), slot: slot}
			c.put(key, value)
		})
		if after[headerWord] != 0 {
			t.Errorf("put came to the %s when the header was %#x, want 0", part, after[headerWord])
		}
	}
}
