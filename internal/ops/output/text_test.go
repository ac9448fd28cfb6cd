package output

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWrapKeepsEveryWordAndTheWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-z±:]{1,60}`)).Draw(t, "words")
		wrapped := Wrap(strings.Join(words, " "))
		if got := strings.Fields(wrapped); strings.Join(got, " ") != strings.Join(words, " ") {
			t.Fatalf("%q became %q", words, got)
		}
		lines := strings.Split(wrapped, "\n")
		for i, line := range lines {
			if utf8.RuneCountInString(line) > MaxWidth {
				t.Fatalf("%q is wider than %d", line, MaxWidth)
			}
			if i == 0 {
				continue
			}
			if !strings.HasPrefix(line, "  ") {
				t.Fatalf("%q continues a line and is not indented", line)
			}
			if first := strings.Fields(line)[0]; utf8.RuneCountInString(lines[i-1]+" "+first) <= MaxWidth {
				t.Fatalf("%q would fit behind %q", first, lines[i-1])
			}
		}
	})
}

func TestWrapLeavesALongWordWhole(t *testing.T) {
	long := strings.Repeat("x", MaxWidth+1)
	if got, want := Wrap("a "+long+" b"), "a\n  "+long+"\n  b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSignedShowsNoSignOfNothing(t *testing.T) {
	for _, c := range []struct {
		f        float64
		decimals int
		want     string
	}{
		{-0.004, 2, "0.00"},
		{0.004, 2, "0.00"},
		{math.Copysign(0, -1), 1, "0.0"},
		{-0.4, 0, "0"},
		{-0.006, 2, "-0.01"},
		{0.006, 2, "+0.01"},
		{77.81, 2, "+77.81"},
		{-100, 0, "-100"},
		{math.Inf(1), 2, "+Inf"},
		{math.Inf(-1), 2, "-Inf"},
		{math.NaN(), 2, "NaN"},
	} {
		if got := FormatSigned(c.f, c.decimals); got != c.want {
			t.Errorf("Signed(%v, %d) = %q, want %q", c.f, c.decimals, got, c.want)
		}
	}
}

func TestColumns_WideAndCombiningRunes_AreCountedAsTheyAreShown(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "äöü": 3, "日本": 4, "e\u0301": 1, "ﾊﾝ": 2, "…█": 2, "😀": 2} {
		if got := TextWidth(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
	for text, want := range map[string]string{"日本語": "日…", "abcd": "abcd", "abcde": "abc…"} {
		if got := Clip(text, 4); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
	if got := Clip(strings.Repeat("x", 500), 0); len(got) != 500 {
		t.Errorf("without a screen %d are left", len(got))
	}
}

func TestPrintable_HostileText_IsEscapedAndTheRestStays(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ä 日本\nline": "plain, ä 日本\nline",
		"\x1b[31mred":       `\x1b[31mred`,
		"a\r\u202eb\x00":    `a\x0d\xe2\x80\xaeb\x00`,
		"\xff\xfe":          `\xff\xfe`,
		"\ufffd":            "\ufffd",
	} {
		if got := EscapeUnprintable(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestTable_NarrowScreen_CutsTheLeastImportantCellsAlone(t *testing.T) {
	columns := []Column[row]{
		{Head: "name", Cell: func(r row) string { return r.Name }, CutPriority: 1},
		{Head: "bytes", Right: true, Cell: func(row) string { return "~1.0 MiB" }, Bar: func(r row) float64 { return r.Share }},
		{Head: "why", Cell: func(r row) string { return strings.Repeat(r.Name+" ", 4) }, CutPriority: 2},
	}
	rows := []row{{"a-name-of-some-length", 0.5}, {"日本語日本語日本語日本語\x1b[2J\n", 1}}
	whole := RenderTable(0, rows, columns)
	if strings.Contains(whole, ellipsis) || strings.Contains(whole, "\x1b") || !strings.Contains(whole, "█") {
		t.Errorf("without a screen:\n%s", whole)
	}
	rapid.Check(t, func(t *rapid.T) {
		screen := rapid.IntRange(40, 300).Draw(t, "screen")
		text := RenderTable(screen, rows, columns)
		if !utf8.ValidString(text) || strings.Count(text, "~1.0 MiB") != 2 {
			t.Fatalf("the figures are cut:\n%s", text)
		}
		for line := range strings.Lines(text) {
			if TextWidth(strings.TrimSuffix(line, "\n")) > screen {
				t.Fatalf("%q takes %d of %d columns", line, TextWidth(line)-1, screen)
			}
		}
		if screen > 60 && !strings.Contains(text, "a-name-of-some-length") {
			t.Fatalf("a name is cut before what matters less, at %d columns:\n%s", screen, text)
		}
	})
}

func TestUnitsAreThoseThatPeopleRead(t *testing.T) {
	for got, want := range map[string]string{
		Bytes(int64(0)): "0 B", Bytes(uint64(1023)): "1023 B", Bytes(int64(1536)): "1.5 KiB", Bytes(int64(96 << 20)): "96.0 MiB",
		Bytes(uint64(1) << 63): "8192 PiB", Bytes(102399.9): "100 KiB", Bytes(int64(-2048)): "-2.0 KiB",
		Count(0): "0", Count(999): "999", Count(1000): "1,000", Count(-1234567): "-1,234,567", Count(-999): "-999",
		Plural(1, "row"): "1 row", Plural(0, "shard"): "0 shards", Plural(1234, "key"): "1,234 keys", Plural(uint64(2), "hash"): "2 hashes", Plural(3, "index"): "3 indexes",
		Seconds(0): "0 s", Seconds(0.0000042): "4 µs", Seconds(0.0042): "4.2 ms", Seconds(1.5): "1.5 s", Seconds(200): "3m20s",
		Seconds(7500): "2h5m", Seconds(273600): "3d4h", Seconds(math.Inf(1)): "?",
		RenderBar(0.5, 4): "██··", RenderBar(0, 2): "··", RenderBar(2, 2): "██",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTable_ScreenTooNarrow_LeavesColumnsOut(t *testing.T) {
	cell := func(text string) func(int) string { return func(int) string { return text } }
	columns := []Column[int]{
		{Head: "id", Cell: cell("12")}, {Head: "store", Cell: cell("0"), DropPriority: 2}, {Head: "rows", Cell: cell("34"), DropPriority: 1}, {Head: "busy", Cell: cell("5 %")},
	}
	for width, want := range map[int]string{
		21: "id  store  rows  busy\n12  0      34    5 %\n", 20: "id  rows  busy\n12  34    5 %\n", 10: "id  busy\n12  5 %\n", 3: "id  busy\n12  5 %\n",
	} {
		if got := renderTable(width, []int{1}, columns); got != want {
			t.Errorf("on %d columns:\n%s", width, got)
		}
	}
}

func TestRough_KeepsTwoDigits(t *testing.T) {
	for n, want := range map[uint64]uint64{0: 0, 7: 7, 99: 99, 123: 120, 125: 130, 999: 1000, 77_995: 78_000, 1_234_567: 1_200_000} {
		if got := Rough(n); got != want {
			t.Errorf("%d becomes %d, want %d", n, got, want)
		}
	}
}
