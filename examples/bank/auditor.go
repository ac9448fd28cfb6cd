package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// auditor starts banks, kills them, and writes down what they say.
type auditor struct {
	self, form, dir string
	rng             *rand.Rand
	book            *book
	lives           int
}

// errAlive means that a bank ended before it was killed.
var errAlive = errors.New("the bank ended by itself")

// patience bounds a life: a bank that hangs is an error too.
const patience = 2 * time.Minute

// life starts a bank, audits what it has, has it execute again what has an
// unknown outcome, and kills it at a step.
func (a *auditor) life(ctx context.Context, at step) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel() // ends a child that is left by an error
	child := exec.CommandContext(ctx, a.self, bankCommand, "-form", a.form, "-dir", a.dir, "-life", strconv.Itoa(a.lives),
		"-stop", strconv.Itoa(int(at)), "-nth", strconv.Itoa(a.rng.IntN(12)), "-seed", strconv.FormatUint(a.rng.Uint64(), 10))
	a.lives++
	var complaint strings.Builder
	child.Stderr = &complaint
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	l := &listener{a: a, at: at, in: in, kill: child.Process.Kill, answers: 1 + a.rng.IntN(40)}
	for lines := bufio.NewScanner(out); lines.Scan(); { // also what is in the pipe after the kill
		if err := l.hear(lines.Text()); err != nil {
			cancel()
			_ = child.Wait() // it was killed: that is no news
			return err
		}
	}
	err = child.Wait()
	switch {
	case l.killed:
		if a.form == asSaga {
			l.victim = "" // it goes on: its outcome is not known before
		}
		a.book.kill(at, l.victim)
		return nil
	case at == never && err == nil:
		return nil
	}
	return fmt.Errorf("%w: %v: %s", errAlive, err, strings.TrimSpace(complaint.String()))
}

// listener reads the output of one bank.
type listener struct {
	a       *auditor
	at      step
	in      io.WriteCloser
	kill    func() error
	answers int // to wait for, if it is killed at random
	shown   state
	victim  string
	killed  bool
}

func (l *listener) hear(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case sayOpening:
		l.shown = state{map[string]int64{}, map[string]order{}}
		return l.killAt(opening)
	case sayBalance:
		name, amount, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(amount, 10, 64)
		l.shown.balances[name] = n
		return err
	case sayOpen:
		return l.open()
	case sayAt:
		if l.victim == "" {
			l.victim = rest
		}
		return l.killAt(l.at)
	case sayDone:
		l.a.book.answered(rest, acknowledged)
		if l.answers--; l.answers == 0 {
			return l.killAt(anywhere)
		}
		return nil
	case sayRefused:
		l.a.book.answered(rest, refused)
		return nil
	case sayEntry, sayAsked:
		var o order
		if _, err := fmt.Sscan(rest, &o.id, &o.from, &o.to, &o.amount); err != nil {
			return fmt.Errorf("the bank says %q: %w", line, err)
		}
		if word == sayEntry {
			l.shown.log[o.id] = o
			return nil
		}
		return l.a.book.asked(o)
	}
	return fmt.Errorf("the bank says %q", line)
}

// open audits what the bank has shown and gives it work.
func (l *listener) open() error {
	if err := l.a.book.audit(l.shown); err != nil {
		return err
	}
	if l.killed {
		return nil
	}
	for _, o := range l.a.book.resolve(l.shown) {
		if _, err := fmt.Fprintln(l.in, sayAsked, o.id, o.from, o.to, o.amount); err != nil {
			return err
		}
	}
	if l.at != never {
		_, err := fmt.Fprintln(l.in, hearWork)
		return err
	}
	return l.in.Close()
}

// killAt kills the bank if this is the step for it: at once if a transfer waits
// there to be killed, else some time later.
func (l *listener) killAt(s step) error {
	if s != l.at || l.killed {
		return nil
	}
	if !s.stops() {
		time.Sleep(l.delay())
	}
	l.killed = true
	return l.kill()
}

// delay is from 10 microseconds to 10 milliseconds, a commit's time, or to 300
// for the opening of a store. Short ones are as likely as long ones.
func (l *listener) delay() time.Duration {
	shortest, longest := 10*time.Microsecond, 10*time.Millisecond
	if l.at == opening {
		shortest, longest = time.Millisecond, 300*time.Millisecond
	}
	ratio := float64(longest) / float64(shortest)
	return time.Duration(float64(shortest) * math.Pow(ratio, l.a.rng.Float64()))
}
