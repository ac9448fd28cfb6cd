package partition

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewriteScripts = flag.Bool("rewrite", false, "write what the scripts in testdata answer into them")

// TestScripts runs the transcripts in testdata, which specify how maps behave.
// In a script commands stand above ---- and the answer below, up to a blank
// line. Several edits above one ---- are one Apply:
//
//	first LABELS … [at PLACE … | even KEYSPACE N]    groups, and where to split
//	split SHARD at PLACE … [expect VERSION]
//	merge SHARD SHARD [expect VERSION VERSION]
//	assign SHARD GROUP [expect VERSION]
//	pin SHARD|PLACE..PLACE CONSTRAINT [expect VERSION]
//	add LABELS [as GROUP]    drain GROUP    undrain GROUP    remove GROUP
//
// and without an edit:
//
//	find PLACE    slot KEYSPACE N    shards PLACE..PLACE    backward PLACE..PLACE
//	misplaced     diff VERSION VERSION
//
// Labels and a constraint may be - for none. See place for places.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.script")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { runScript(t, path) })
	}
}

func runScript(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := script{maps: map[Version]*Map{}}
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		commands, _, isCommand := strings.Cut(block, "\n----")
		if !isCommand {
			fmt.Fprintf(&out, "%s\n\n", block) // prose
			continue
		}
		fmt.Fprintf(&out, "%s\n----\n%s\n\n", commands, strings.TrimSpace(s.runLines(strings.Split(commands, "\n"))))
	}
	got := strings.TrimSpace(out.String()) + "\n"
	if *rewriteScripts {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != string(text) {
		t.Errorf("the script answers otherwise; -rewrite shows it in the diff:\n%s", firstDifference(got, string(text)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d\n got: %s\nwant: %s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// script is the state between commands.
type script struct {
	m    *Map
	maps map[Version]*Map
}

func (s *script) runLines(lines []string) string {
	words := strings.Fields(lines[0])
	switch words[0] {
	case "first":
		return s.keepMap(parseFirst(words[1:]))
	case "find":
		return shardLine(s.m.Find(parsePosition(words[1])))
	case "slot":
		owner, whole := s.m.SlotOwner(keyspaceNamed(words[1]).ID, uint16(parseNumber(words[2])))
		return fmt.Sprintf("%v %v changed %d whole %v", owner.Shard, owner.Group, owner.Changed, whole)
	case "shards", "backward", "misplaced":
		all := s.m.Misplaced()
		switch words[0] {
		case "shards":
			all = s.m.Shards(parseSpan(words[1]))
		case "backward":
			all = s.m.Backward(parseSpan(words[1]))
		}
		var b strings.Builder
		for shard := range all {
			fmt.Fprintln(&b, shardLine(shard))
		}
		return cmp.Or(b.String(), "none")
	case "diff":
		return Diff(s.maps[Version(parseNumber(words[1]))], s.maps[Version(parseNumber(words[2]))]).String()
	}
	var edits []Edit
	for _, line := range lines {
		edits = append(edits, parseEdit(strings.Fields(line)))
	}
	return s.keepMap(s.m.Apply(edits...))
}

// keepMap goes on with a map, and prints it.
func (s *script) keepMap(m *Map, err error) string {
	if err != nil {
		return err.Error()
	}
	if err := m.checkInvariants(); err != nil {
		return "does not tile: " + err.Error()
	}
	s.m, s.maps[m.version] = m, m
	var b strings.Builder
	fmt.Fprintf(&b, "version %d\n", m.version)
	for shard := range m.Shards(Whole) {
		fmt.Fprintln(&b, shardLine(shard))
	}
	for _, g := range m.Groups() {
		line := fmt.Sprintf("%v %v", g.ID, g.Labels)
		if g.Draining {
			line += " draining"
		}
		fmt.Fprintln(&b, strings.TrimSpace(line))
	}
	return b.String()
}

func parseFirst(words []string) (*Map, error) {
	var groups []Group
	for i, word := range words {
		switch word {
		case "at":
			at := parsePositions(words[i+1:])
			return NewMap(groups, keyspaceOf(words[i+1:]), at...)
		case "even":
			k := keyspaceNamed(words[i+1])
			at, err := k.EvenSlots(parseNumber(words[i+2]))
			if err != nil {
				return nil, err
			}
			return NewMap(groups, k, at...)
		}
		groups = append(groups, Group{Labels: mustLabels(strings.Trim(word, "-"))})
	}
	return NewMap(groups, nil)
}

func parseEdit(words []string) Edit {
	var expect []Version
	if i := slices.Index(words, "expect"); i >= 0 {
		for _, word := range words[i+1:] {
			expect = append(expect, Version(parseNumber(word)))
		}
		words = words[:i]
	}
	expect = append(expect, 0, 0) // not asked
	shard := func(i int) ShardID { return ShardID(parseNumber(words[i][1:])) }
	group := func(i int) GroupID { return GroupID(parseNumber(words[i][1:])) }
	switch words[0] {
	case "split":
		return Split{Shard: shard(1), In: keyspaceOf(words[3:]), At: parsePositions(words[3:]), Expect: expect[0]}
	case "merge":
		if strings.Contains(words[1], "..") {
			return MergeSpan{Span: parseSpan(words[1])}
		}
		return Merge{Left: shard(1), Right: shard(2), ExpectLeft: expect[0], ExpectRight: expect[1]}
	case "assign":
		return Assign{Shard: shard(1), To: group(2), Expect: expect[0]}
	case "pin":
		to := mustConstraint(strings.Trim(words[2], "-"))
		if strings.Contains(words[1], "..") {
			return PinSpan{Span: parseSpan(words[1]), To: to}
		}
		return Pin{Shard: shard(1), To: to, Expect: expect[0]}
	case "add":
		e := AddGroup{Labels: mustLabels(strings.Trim(words[1], "-"))}
		if len(words) > 2 {
			e.ID = group(3)
		}
		return e
	case "drain", "undrain":
		return SetDraining{group(1), words[0] == "drain"}
	case "remove":
		return RemoveGroup{group(1)}
	}
	panic("not an edit: " + strings.Join(words, " "))
}

func shardLine(s Shard) string {
	line := fmt.Sprintf("%v %s..%s %v changed %d", s.ID, formatEdge(s.Span.Start, "begin"), formatEdge(s.Span.End, "end"), s.Group, s.Changed)
	if s.Pin != (Constraint{}) {
		line += fmt.Sprintf(" pinned to %v", s.Pin)
	}
	return line
}

func parseNumber(s string) int { return must(strconv.Atoi(s)) }

// parsePosition reads a place of a script:
//
//	begin, end           of the space
//	users, users+        the edges of a keyspace
//	default@5            the start of a slot
//	users/"m"            the own row of a key
//	users/"m"."email"    an element of its collection
//	users/"m"+           behind all its elements
//	users/"m"*           before all keys that begin so
func parsePosition(s string) Position {
	if s == "begin" || s == "end" {
		return nil
	}
	if name, slot, ok := strings.Cut(s, "@"); ok {
		return keyspaceNamed(name).SlotSpan(uint16(parseNumber(slot))).Start
	}
	name, rest, inside := strings.Cut(s, "/")
	if !inside {
		name, end := strings.CutSuffix(s, "+")
		if span := keyspaceNamed(name).Span(); end {
			return span.End
		}
		return keyspaceNamed(name).Span().Start
	}
	k := keyspaceNamed(name)
	quoted := must(strconv.QuotedPrefix(rest))
	key := []byte(must(strconv.Unquote(quoted)))
	switch rest = rest[len(quoted):]; {
	case rest == "+":
		return k.KeySpan(key).End
	case rest == "*":
		return k.PrefixSpan(key).Start
	case rest != "":
		return append(k.AppendPosition(nil, key), must(strconv.Unquote(rest[1:]))...)
	}
	return k.AppendPosition(nil, key)
}

// formatEdge is the reverse of place for the boundaries that maps have.
func formatEdge(p Position, edge string) string {
	if len(p) == 0 {
		return edge
	}
	for _, k := range scriptKeyspaces {
		if bytes.Equal(p, k.Span().Start) {
			return k.Name
		}
		if !k.Span().Contains(p) {
			continue
		}
		if key, element, err := k.Split(nil, p); err == nil && len(element) == 0 {
			return fmt.Sprintf("%s/%q", k.Name, key)
		}
		if k.Kind == Hash && len(p) == 3 {
			return fmt.Sprintf("%s@%d", k.Name, k.SlotAt(p))
		}
		row := bytes.Clone(p)
		if row[len(row)-1]--; len(p) > 2 {
			if key, element, err := k.Split(nil, row); err == nil && len(element) == 0 {
				return fmt.Sprintf("%s/%q+", k.Name, key)
			}
		}
		return fmt.Sprintf("%s/%q*", k.Name, p[1:])
	}
	for _, k := range scriptKeyspaces {
		if bytes.Equal(p, k.Span().End) {
			return k.Name + "+"
		}
	}
	return fmt.Sprintf("%x", []byte(p))
}

// scriptKeyspaces are the keyspaces that scripts can name.
var scriptKeyspaces = []*Keyspace{{ID: 0, Name: "system", Kind: Range}, {ID: 1, Name: "default", Kind: Hash}, {ID: 5, Name: "users", Kind: Range}}

func keyspaceNamed(name string) *Keyspace {
	for _, k := range scriptKeyspaces {
		if k.Name == name {
			return k
		}
	}
	panic("no keyspace " + name)
}

// keyspaceOf returns the keyspace of the first place that is inside one.
func keyspaceOf(words []string) *Keyspace {
	for _, word := range words {
		if i := strings.IndexAny(word, "/@"); i >= 0 {
			return keyspaceNamed(word[:i])
		}
	}
	return nil
}

func parsePositions(words []string) (at []Position) {
	for _, word := range words {
		at = append(at, parsePosition(word))
	}
	return at
}

func parseSpan(s string) Span {
	start, end, _ := strings.Cut(s, "..")
	return Span{parsePosition(start), parsePosition(end)}
}
