package importer

import (
	"fmt"
	"strings"
	"testing"
)

func TestHyperLogLog_IsToldFromStringsThatBeginAlike(t *testing.T) {
	registers := strings.Repeat("\x00", hllDenseBytes-16)
	for text, want := range map[string]bool{
		"HYLL\x01\x00\x00\x00" + strings.Repeat("\x00", 8) + "\x7f\xff": true,
		"HYLL\x00\x00\x00\x00" + strings.Repeat("\x00", 8) + registers:  true,
		"HYLL\x00\x00\x00\x00" + strings.Repeat("\x00", 8) + "short":    false,
		"HYLL\x02\x00\x00\x00" + strings.Repeat("\x00", 8) + registers:  false,
		"HYLL":                        false,
		"HYLL is the name of a magic": false,
		"":                            false,
	} {
		if got := isHyperLogLog(text, int64(len(text))); got != want {
			t.Errorf("%.20q of %d bytes: %v", text, len(text), got)
		}
	}
}

func TestReport_LeftOut_NamesTheFirstAndCountsAll(t *testing.T) {
	var r Report
	for i := range 25 {
		r.addLeftOut("of type list, which is not served", fmt.Sprint("k", i))
	}
	r.addLeftOut("with a value over 64.0 MiB", "big")
	if len(r.LeftOut) != 2 || r.LeftOut[0].Count != 25 || len(r.LeftOut[0].Keys) != maxNamedKeys || r.CountLeftOut() != 26 {
		t.Errorf("%+v", r)
	}
}

func TestPart_FieldsOfAHash_ComeInPiecesThatTheTargetReads(t *testing.T) {
	var p chunk
	var fields []string
	for i := range 10 {
		fields = append(fields, fmt.Sprint("f", i), strings.Repeat("v", 3<<20))
	}
	sent := 0
	if err := p.appendFields(&item{key: "h", isFirst: true}, fields, func() error { sent++; return nil }); err != nil {
		t.Fatal(err)
	}
	got := 0
	for i := range p.items {
		if p.items[i].sizeBytes() > maxChunkBytes+1 || p.items[i].isFirst != (i == 0) {
			t.Errorf("piece %d has %d bytes", i, p.items[i].sizeBytes())
		}
		got += len(p.items[i].fields)
	}
	if got != len(fields) || len(p.items) != 5 {
		t.Errorf("%d pieces with %d words of %d", len(p.items), got, len(fields))
	}
}
