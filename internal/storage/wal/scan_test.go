package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func fixChecksum(b []byte) {
	n := min(int(binary.LittleEndian.Uint32(b[8:])), len(b))
	if n >= 8 {
		binary.LittleEndian.PutUint32(b[4:], testSalt.computeChecksum(b[8:n]))
	}
}

func fixHeaderChecksum(b []byte) {
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:headerBytes], castagnoli))
}

// segmentImage is a segment in memory and what is in it.
type segmentImage struct {
	b     []byte
	h     header
	ends  []int // of the frames
	proof []int // of each frame, how far it says that the segment was durable
}

// makeImage makes a segment of random frames. If each write was synced, a frame says
// that everything before it was durable; otherwise only some do.
func makeImage(sequence uint32, blocks int, synced bool, rng *rand.Rand) segmentImage {
	im := segmentImage{b: make([]byte, blocks*blockBytes), h: header{sequence: sequence, prev: makePosition(sequence-1, 2*blockBytes)}}
	putHeader(im.b, im.h)
	prev, durable, at := im.h.prev, im.h.prev, blockBytes
	for rng.IntN(12) > 0 {
		es := make([]Entry, 1+rng.IntN(3))
		for i := range es {
			es[i] = Entry{Group: uint64(sequence), Payload: makePayload(uint64(sequence)<<32|uint64(at), i, len(es), rng.IntN(4000))}
		}
		if synced || rng.IntN(4) == 0 {
			durable = prev
			at = alignToBlock(at)
		}
		b := makeFrame(frameInfo{sequence: sequence, prev: prev, watermark: durable, kind: kindData}, es...)
		if at+len(b) > len(im.b) {
			break
		}
		copy(im.b[at:], b)
		at += alignToFrame(len(b))
		prev = makePosition(sequence, at)
		im.ends = append(im.ends, at)
		im.proof = append(im.proof, 0)
		if durable.sequence() == sequence {
			im.proof[len(im.proof)-1] = durable.offset()
		}
	}
	return im
}

// scanImage scans and judges an image as replay does with the newest segment.
func scanImage(im segmentImage) (ends []int, err error) {
	sc := newFrameScanner(im.b, im.h)
	for {
		if _, _, ok := sc.next(); !ok {
			return ends, checkScanEnd(&sc, findProofInImage(im.b, testSalt, im.h.sequence, sc.offset))
		}
		ends = append(ends, sc.offset)
	}
}

// checkMutant damages an image in a way that the seed and the bytes choose, and
// checks what the scan makes of it.
func checkMutant(seed uint64, how byte, at, length uint16) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	im := makeImage(5, 24, seed%2 == 0, rng)
	old := makeImage(4, 24, true, rng)
	from := blockBytes + int(at)%(len(im.b)-blockBytes)
	to := min(from+1+int(length), len(im.b))
	switch how % 5 {
	case 0: // nothing: frames of the file's earlier use behind the end
		from = len(im.b)
	case 1: // one flipped bit
		im.b[from] ^= 1 << (length % 8)
		to = from + 1
	case 2: // never written
		clear(im.b[from:to])
	case 3: // written before this use
		copy(im.b[from:to], old.b[from:to])
	case 4: // cut off
		im.b = im.b[:from]
		to = 24 * blockBytes
	}
	if n := len(im.ends); n > 0 && how%5 != 4 {
		copy(im.b[im.ends[n-1]:], old.b[im.ends[n-1]:])
	} else if n == 0 && how%5 != 4 {
		copy(im.b[blockBytes:], old.b[blockBytes:])
	}
	got, err := scanImage(im)
	return im.checkScan(got, err, from, to, old)
}

// checkScan checks what a scan found if the bytes in [from, to) may differ.
func (im segmentImage) checkScan(got []int, err error, from, to int, old segmentImage) error {
	intact := 0 // frames before the damage
	for intact < len(im.ends) && im.ends[intact] <= from {
		intact++
	}
	if len(got) < intact {
		return fmt.Errorf("%d frames found, %d are intact", len(got), intact)
	}
	if len(got) > len(im.ends) {
		return fmt.Errorf("%d frames found, %d were written", len(got), len(im.ends))
	}
	end := blockBytes
	for i, e := range got {
		if e != im.ends[i] {
			return fmt.Errorf("frame %d ends at %d, was written up to %d", i, e, im.ends[i])
		}
		end = e
	}
	// A frame behind the damage that is whole proves what it says.
	proven := false
	for i := len(got) + 1; i < len(im.ends); i++ {
		proven = proven || im.ends[i-1] >= to && im.ends[i] <= len(im.b) && im.proof[i] > end
	}
	if corrupt := errors.Is(err, ErrCorrupt); corrupt != proven && (proven || len(got) == len(im.ends)) {
		return fmt.Errorf("%d of %d frames found, the rest proven durable: %v, verdict: %v", len(got), len(im.ends), proven, err)
	}
	return nil
}

func TestScanTellsStaleTornAndCorrupt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 / slowdown / slowdown {
		seed, how, at, length := rng.Uint64(), byte(rng.IntN(5)), uint16(rng.Uint32()), uint16(rng.Uint32()>>rng.IntN(16))
		if err := checkMutant(seed, how, at, length); err != nil {
			t.Fatalf("checkMutant(%d, %d, %d, %d): %v", seed, how, at, length, err)
		}
	}
}

func FuzzScan(f *testing.F) {
	for how := range byte(5) {
		f.Add(uint64(how), how, uint16(5000), uint16(100))
	}
	f.Fuzz(func(t *testing.T, seed uint64, how byte, at, length uint16) {
		if err := checkMutant(seed, how, at, length); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzScanBytes feeds anything at all: the scan must end and stay inside.
func FuzzScanBytes(f *testing.F) {
	im := makeImage(1, 6, true, rand.New(rand.NewPCG(3, 3)))
	f.Add(im.b, uint32(1))
	f.Fuzz(func(t *testing.T, b []byte, sequence uint32) {
		sc := newFrameScanner(b, header{sequence: sequence})
		for {
			f, frame, ok := sc.next()
			if !ok {
				break
			}
			for _, e := range appendEntries(nil, frame, f, sc.endPosition()) {
				_ = e.Payload
			}
		}
		_ = checkScanEnd(&sc, findProofInImage(b, testSalt, sequence, sc.offset))
	})
}

func TestImageOfAFrameInAPayloadProvesNothing(t *testing.T) {
	for _, prev := range []Position{makePosition(5, 0x100000), makePosition(4, 0x1000)} {
		liar := makeFrame(frameInfo{sequence: 5, prev: prev, watermark: makePosition(5, 0x100000), kind: kindData})
		im := segmentImage{b: make([]byte, 16*blockBytes), h: header{sequence: 5}}
		p := make([]byte, 3*blockBytes)
		copy(p[blockBytes-frameHeader-EntryOverhead:], liar)
		copy(im.b[blockBytes:], makeFrame(frameInfo{sequence: 5, kind: kindData}, Entry{Payload: p}))
		im.b[blockBytes+50] ^= 1 // torn
		if ends, err := scanImage(im); len(ends) != 0 || err != nil {
			t.Errorf("behind %s: found %v, verdict %v", prev, ends, err)
		}
	}
}
