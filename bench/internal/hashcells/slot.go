package hashcells

import (
	"bytes"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/hash"
)

// crcTable is CRC-16/XMODEM a byte at a time: how Redis and its clients
// compute slots.
var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc >> 15
			crc <<= 1
			if carry == 1 {
				crc ^= 0x1021
			}
		}
		t[i] = crc
	}
	return t
}()

// plainSlot is the textbook slot function with hash tags.
func plainSlot(key []byte) uint16 {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if n := bytes.IndexByte(key[open+1:], '}'); n > 0 {
			key = key[open+1 : open+1+n]
		}
	}
	var crc uint16
	for _, b := range key {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^b]
	}
	return crc % 16384
}

// slots compares the slot function over keys.
func slots(id, title string, keys [][]byte) duel.Cell {
	mask := len(keys) - 1
	return duel.Cell{ID: id, Title: title, Contestants: []duel.Contestant{
		{Name: "SlotOf", Ours: true, Work: func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += uint64(hash.SlotOf(keys[i&mask]))
			}
			workload.Sink = sum
		}},
		{Name: "CRC16 by table", Work: func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += uint64(plainSlot(keys[i&mask]))
			}
			workload.Sink = sum
		}},
	}}
}
