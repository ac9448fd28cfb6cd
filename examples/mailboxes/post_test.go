package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/actor"
)

func TestEveryLetterArrivesAndStaysWithItsUserWhenTheFleetGrows(t *testing.T) {
	const users = 2000
	for _, mode := range []actor.Mode{actor.Combining, actor.Owner} {
		post, err := OpenPost(4, 3, mode)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		letters := make([]Letter, users)
		for i := range letters {
			letters[i].To = user(i)
		}
		ways := []way{{batch: 1}, {batch: 16}, {batch: 1, wait: true}, {batch: 16, wait: true}}
		for _, w := range ways {
			if err := send(ctx, post, letters, w); err != nil {
				t.Fatal(err)
			}
		}
		home := make([]int, users)
		for i := range home {
			home[i] = post.shardOf(user(i))
		}
		boxes, moved, promised, err := post.Grow(ctx)
		if err != nil || boxes != users {
			t.Fatalf("%d boxes: %v", boxes, err)
		}
		changed := 0
		for i := range home {
			now := post.shardOf(user(i))
			if now != home[i] {
				changed++
				if now != 3 {
					t.Errorf("%s went from %d to %d, not to the new office", user(i), home[i], now)
				}
			}
			if n, err := post.Count(ctx, user(i)); err != nil || n != len(ways) {
				t.Fatalf("%s has %d letters: %v", user(i), n, err)
			}
		}
		// 2000 users: the share of the new office is known to about 1 %.
		if share := float64(moved) / users; moved != changed || share < promised.Moved-0.05 || share > promised.Moved+0.05 {
			t.Errorf("%d boxes moved, %d users changed, promised %.3f", moved, changed, promised.Moved)
		}
		lines, err := post.Report(ctx)
		if err != nil || len(lines) != 4 {
			t.Fatalf("%v: %v", lines, err)
		}
		sum := 0
		for _, l := range lines {
			sum += l.Letters
		}
		if sum != len(ways)*users {
			t.Errorf("%d letters", sum)
		}
		if err := post.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestAPostThatCannotGrowSaysSo(t *testing.T) {
	post, err := OpenPost(1, 1, actor.Combining)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := post.Grow(t.Context()); err == nil {
		t.Error("grew beyond its room")
	}
	if n, err := post.Count(t.Context(), "somebody"); err != nil || n != 0 {
		t.Errorf("%d letters: %v", n, err)
	}
	for _, bad := range [][2]int{{1, 2}, {0, 0}, {1, -1}} {
		if _, err := OpenPost(bad[0], bad[1], actor.Combining); err == nil {
			t.Errorf("room for %d, %d in use", bad[0], bad[1])
		}
	}
}

func TestTheProgramTellsItsStory(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, actor.Owner, 500); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"500 users, 4 offices", "office 4", "called one by one", "called in batches of 64", "posted one by one", "posted in batches of 64", "still has its 13 letters"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestAGainIsClaimedOnlyWhereThereIsOne(t *testing.T) {
	for _, c := range []struct {
		single, batched time.Duration
		want            string
	}{
		{300, 100, "batches: 3.0 times as fast"},
		{105, 100, "batches: no gain"},
		{100, 105, "batches: no gain"},
		{100, 200, "batches: no gain, 2.0 times as slow"},
	} {
		if got := gain(c.single, c.batched); got != c.want {
			t.Errorf("%v and %v: %q, want %q", c.single, c.batched, got, c.want)
		}
	}
}
