package mutants

import (
	"regexp"
	"slices"
	"strings"
)

// contextLines is how many lines a hunk has on both sides of its change, if they are enough to find it.
const contextLines = 2

// mutantPattern finds the conditions of mutants.
var mutantPattern = regexp.MustCompile(`\bplant\.Bug\("([^"]+)"\)`)

// region is where two texts differ: lines of the one, and those of the other in their place.
type region struct{ from, to, plantedFrom, plantedTo int }

// diffLines returns where two texts differ.
func diffLines(a, b []string) (regions []region) {
	common := make([][]int32, len(a)+1) // the longest common subsequence of a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		if i < len(a) && j < len(b) && a[i] == b[j] {
			i, j = i+1, j+1
			continue
		}
		r := region{i, i, j, j}
		for i < len(a) || j < len(b) {
			if i < len(a) && j < len(b) && a[i] == b[j] {
				break
			}
			if j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1] {
				i++
			} else {
				j++
			}
		}
		r.to, r.plantedTo = i, j
		regions = append(regions, r)
	}
	return regions
}

// slideDown moves a region that only adds lines down as far as it says the same, to where what is added
// begins with its first line and not with the end of what is before it.
func (r *region) slideDown(a, b []string) {
	for r.from == r.to && r.from < len(a) && b[r.plantedFrom] == a[r.from] {
		r.from, r.to, r.plantedFrom, r.plantedTo = r.from+1, r.to+1, r.plantedFrom+1, r.plantedTo+1
	}
}

// makeHunks returns the changes that make a planted file of one without mutants. Imports are not among them.
func makeHunks(clean, planted []byte) ([]Hunk, error) {
	s, err := readScopes(clean)
	if err != nil {
		return nil, err
	}
	b := strings.Split(string(planted), "\n")
	regions := diffLines(s.lines, b)
	for i := range regions {
		regions[i].slideDown(s.lines, b)
	}
	namesOf := func(r region) (names []string) {
		for _, m := range mutantPattern.FindAllStringSubmatch(strings.Join(b[r.plantedFrom:r.plantedTo], "\n"), -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
		return names
	}
	// What has no name of a mutant belongs to what is close by.
	merged := regions[:0]
	for _, r := range regions {
		if n := len(merged) - 1; n >= 0 && (r.from <= merged[n].to ||
			s.functionAt(r.from, r.to).first == s.functionAt(merged[n].from, merged[n].to).first && (len(namesOf(r)) == 0 || len(namesOf(merged[n])) == 0)) {
			merged[n].to, merged[n].plantedTo = r.to, r.plantedTo
		} else {
			merged = append(merged, r)
		}
	}
	var hunks []Hunk
	for _, r := range merged {
		f := s.functionAt(r.from, r.to)
		if r.from == r.to && f.name != "" && r.from == f.first { // a function before this one
			f = functionLines{"", 0, len(s.lines)}
		}
		h := Hunk{Mutants: namesOf(r), Function: f.name}
		h.addLines(s, f, r, b)
		hunks = append(hunks, h)
	}
	nameHelpers(hunks)
	return hunks, nil
}

// addLines adds the change with as much context as it takes to be found.
func (h *Hunk) addLines(s *scopes, f functionLines, r region, b []string) {
	var from, to int
	for n := 1; ; n++ {
		from, to = max(r.from-n, f.first), min(r.to+n, f.end)
		if n >= contextLines && len(s.find(f, s.lines[from:r.from], s.lines[r.from:r.to], s.lines[r.to:to])) == 1 || from == f.first && to == f.end {
			break
		}
	}
	h.Lines = nil
	for _, text := range s.lines[from:r.from] {
		h.Lines = append(h.Lines, Line{' ', text})
	}
	old, planted := s.lines[r.from:r.to], b[r.plantedFrom:r.plantedTo]
	i, j := 0, 0
	for _, d := range append(diffLines(old, planted), region{len(old), len(old), len(planted), len(planted)}) {
		for ; i < d.from; i++ {
			h.Lines = append(h.Lines, Line{' ', old[i]})
		}
		for ; i < d.to; i++ {
			h.Lines = append(h.Lines, Line{'-', old[i]})
		}
		for j = d.plantedFrom; j < d.plantedTo; j++ {
			h.Lines = append(h.Lines, Line{'+', planted[j]})
		}
	}
	for _, text := range s.lines[r.to:to] {
		h.Lines = append(h.Lines, Line{' ', text})
	}
}

// declaration finds the names that a hunk declares outside of functions.
var declaration = regexp.MustCompile(`(?m)^\+(?:func (?:\([^)]*\) )?|var |const |type )(\w+)`)

// nameHelpers gives hunks without the name of a mutant those of the hunks that use what they declare.
func nameHelpers(hunks []Hunk) {
	for i := range hunks {
		h := &hunks[i]
		if len(h.Mutants) > 0 {
			continue
		}
		for _, m := range declaration.FindAllStringSubmatch(h.text(), -1) {
			word := regexp.MustCompile(`\b` + m[1] + `\b`)
			for j := range hunks {
				if j != i && word.MatchString(hunks[j].text()) {
					h.Mutants = append(h.Mutants, hunks[j].Mutants...)
				}
			}
		}
		if len(h.Mutants) == 0 { // of some mutant of the file
			for j := range hunks {
				h.Mutants = append(h.Mutants, hunks[j].Mutants...)
			}
		}
		slices.Sort(h.Mutants)
		h.Mutants = slices.Compact(h.Mutants)
	}
}

func (h *Hunk) text() string {
	var b strings.Builder
	for _, l := range h.Lines {
		b.WriteString(string(l.Sign) + l.Text + "\n")
	}
	return b.String()
}
