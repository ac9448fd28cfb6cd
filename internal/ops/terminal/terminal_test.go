package terminal

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestOnlyYesIsYes(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, " yes \r\n": true, "y": true, "\n": false, "": false, "no\n": false, "yess\n": false} {
		var out strings.Builder
		got, err := NewForTest(strings.NewReader(answer), &out, true).Confirm(context.Background(), "Split it?")
		if got != want || err != nil || !strings.HasPrefix(out.String(), "Split it? [y/N] ") {
			t.Errorf("%q: %v, %v, %q", answer, got, err, out.String())
		}
	}
}

func TestNobodyIsAskedWithoutATerminal(t *testing.T) {
	var out strings.Builder
	if yes, err := New(strings.NewReader("yes\n"), &out).Confirm(context.Background(), "Split it?"); yes || !errors.Is(err, ErrNoTerminal) || out.Len() > 0 {
		t.Errorf("%v, %v, %q", yes, err, out.String())
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if New(null, null).Interactive || CanColor(null) {
		t.Error("nothing is taken for a terminal")
	}
}

func TestConfirm_ContextEnds_ReturnsWithoutAnAnswer(t *testing.T) {
	in, typed := io.Pipe()
	defer typed.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out strings.Builder
	if yes, err := NewForTest(in, &out, true).Confirm(ctx, "Split it?"); yes || !errors.Is(err, context.Canceled) || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("%v, %v, %q", yes, err, out.String())
	}
}

func TestProgressDrawsOneLineAtATerminalOnly(t *testing.T) {
	var out strings.Builder
	p := NewForTest(strings.NewReader(""), &out, true).NewProgress()
	p.Show(0.5, "5 keys")
	p.Show(-1, strings.Repeat("x", 500))
	p.End(true)
	p.End(true)
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "\n") || !strings.Contains(got, " 50 %  5 keys") || strings.Contains(got, strings.Repeat("x", 101)) {
		t.Errorf("drawn %q", got)
	}
	out.Reset()
	q := NewForTest(strings.NewReader(""), &out, false).NewProgress()
	q.Show(0.5, "5 keys")
	q.End(true)
	if out.Len() > 0 {
		t.Errorf("drawn %q without a terminal", out.String())
	}
}
