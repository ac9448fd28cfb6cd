// Package config answers one question: how is a server to be set up?
//
// Every setting stands once, in the table of [Settings]: its name, what it may be, its
// default, whether it can change while the server runs, and a sentence about it. Flags,
// environment, file, the example file and the check of a file are all made from that
// table, so none of them can know a setting that another does not.
//
// A setting that Redis has is called as Redis calls it. A flag counts more than the
// environment, and that more than the file. What is not understood is a [Mistake] with
// its place, never a silent default, and all mistakes are reported at once.
//
// The package reads and judges. It opens nothing but the file, and does not know what a
// server does with a setting.
package config

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Config is what a server is to be like.
type Config struct {
	values map[string]sourcedValue
	// respAddr is where Redis clients connect that do not encrypt, empty if none may.
	respAddr string
}

// Source is the origin of the value of a setting. A later one takes precedence.
type Source uint8

// The sources of settings.
const (
	FromDefault Source = iota
	FromFile
	FromEnv
	FromFlag
)

// String is the word for the source.
func (s Source) String() string { return [...]string{"default", "file", "env", "flag"}[s] }

// Sources are where settings come from. The zero value gives the defaults.
type Sources struct {
	// File is the name of a file, empty for none.
	File string
	// Env looks up a variable, as os.LookupEnv does. Nil for none.
	Env func(name string) (string, bool)
	// Flags are those that were given, by name.
	Flags map[string]string
}

// Load reads the settings. The error is Mistakes, or that of the file.
func Load(from Sources) (*Config, error) {
	var wrong Mistakes
	c := &Config{values: map[string]sourcedValue{}}
	if from.File != "" {
		data, err := os.ReadFile(from.File)
		if err != nil {
			return nil, err
		}
		c.values = parseFile(from.File, data, &wrong)
	}
	for i := range settings {
		s := &settings[i]
		if from.Env != nil && !s.NoEnv {
			if text, ok := from.Env(s.EnvName()); ok {
				c.setValue(s, text, s.EnvName(), FromEnv, &wrong)
			}
		}
		if text, ok := from.Flags[s.Name]; ok {
			c.setValue(s, text, "--"+s.Name, FromFlag, &wrong)
		}
		if _, ok := c.values[s.Name]; !ok {
			c.values[s.Name] = sourcedValue{s.Default, "default", FromDefault}
		}
	}
	if len(wrong) == 0 { // relations of what is wrong itself would mislead
		c.joinAddress(&wrong)
		c.checkRelations(&wrong)
	}
	if err := wrong.errOrNil(); err != nil {
		return nil, err
	}
	return c, nil
}

// setValue sets a value over what was there.
func (c *Config) setValue(s *Setting, text, place string, source Source, wrong *Mistakes) {
	parsed, err := s.Parse(text)
	if err != nil {
		wrong.add(place, "%q: %v", redactValue(s, text), err)
	}
	c.values[s.Name] = sourcedValue{parsed, place, source}
}

// joinAddress makes one address of bind, port and resp-addr. Each part is that of the source that
// counts more. If one source says both, and not the same, it is a mistake.
func (c *Config) joinAddress(wrong *Mistakes) {
	host, port := c.values["bind"], c.values["port"]
	free := false // any port that is free
	if whole := c.values["resp-addr"]; whole.text != "" {
		wholeHost, wholePort, _ := net.SplitHostPort(whole.text) // it is one: see Parse
		if wholeHost == "" {
			wholeHost = "*"
		}
		for _, p := range []struct {
			name, text string
			part       *sourcedValue
		}{{"bind", wholeHost, &host}, {"port", wholePort, &port}} {
			switch {
			case p.part.source > whole.source:
				continue
			case p.part.source == whole.source && (p.part.text != p.text || p.text == "0"):
				wrong.add(p.part.location, "%s is %s, and resp-addr at %s is %s: leave one of them out", p.name, p.part.text, whole.location, whole.text)
			}
			*p.part = sourcedValue{p.text, whole.location, whole.source}
			free = free || p.text == "0"
		}
	}
	c.values["bind"], c.values["port"] = host, port
	if port.text != "0" || free {
		c.respAddr = net.JoinHostPort(c.listenHost(), port.text)
	}
}

// listenHost is bind as package net writes it.
func (c *Config) listenHost() string {
	if h := c.Text("bind"); h != "*" {
		return h
	}
	return ""
}

// RespAddr returns where Redis clients connect that do not encrypt, empty if none may.
func (c *Config) RespAddr() string { return c.respAddr }

// TLSAddr returns where Redis clients connect that encrypt, empty if none may.
func (c *Config) TLSAddr() string {
	if c.Number("tls-port") == 0 {
		return ""
	}
	return net.JoinHostPort(c.listenHost(), c.Text("tls-port"))
}

// checkRelations finds settings that do not go together.
func (c *Config) checkRelations(wrong *Mistakes) {
	if c.respAddr == "" && c.Number("tls-port") == 0 {
		wrong.add(c.Location("port"), "port is 0 and there is no tls-port: say where Redis clients connect")
	}
	if c.Text("storage") == "disk" && c.Number("maxmemory") != 0 {
		wrong.add(c.Location("maxmemory"), "maxmemory is for storage memory: say how much memory a store on disk has with cache-mib and block-cache-mib")
	}
	pair := [2]string{"http-tls-cert-file", "http-tls-key-file"}
	for i, name := range pair {
		other := pair[1-i]
		switch {
		case c.Text(name) == "":
		case c.Text(other) == "":
			wrong.add(c.Location(name), "%s needs %s", name, other)
		case c.Text("http-addr") == "none":
			wrong.add(c.Location(name), "%s is for http-addr: say where to listen", name)
		}
	}
	if c.Number("tls-port") == 0 {
		for _, name := range []string{"tls-cert-file", "tls-key-file"} {
			if c.Text(name) != "" {
				wrong.add(c.Location(name), "%s is for tls-port: say where to listen", name)
			}
		}
		return
	}
	for _, name := range []string{"tls-cert-file", "tls-key-file"} {
		if c.Text(name) == "" {
			wrong.add(c.Location("tls-port"), "tls-port needs %s", name)
		}
	}
}

// Text returns a setting. There must be one of that name.
func (c *Config) Text(name string) string {
	v, ok := c.values[name]
	if !ok {
		panic("config: no setting " + name)
	}
	return v.text
}

// Number returns a setting of kind Number or Bytes.
func (c *Config) Number(name string) int64 {
	n, err := strconv.ParseInt(c.Text(name), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("config: %s is not a number: %v", name, err))
	}
	return n
}

// Location returns where a setting was given: a place in the file, the name of a variable or
// of a flag, or "default".
func (c *Config) Location(name string) string { return c.values[name].location }

// Source returns the origin of the value of a setting.
func (c *Config) Source(name string) Source { return c.values[name].source }

// ClientSettings returns the settings that clients know, by their names.
func (c *Config) ClientSettings() map[string]string {
	m := map[string]string{}
	for i := range settings {
		if settings[i].Redis {
			m[settings[i].Name] = c.Text(settings[i].Name)
		}
	}
	return m
}

// Diff returns the settings that are not the same in another configuration: those
// that can change while the server runs with their new values, and the names of those
// that wait for a restart.
func (c *Config) Diff(to *Config) (live map[string]string, restart []string) {
	live = map[string]string{}
	for i := range settings {
		s := &settings[i]
		switch {
		case c.Text(s.Name) == to.Text(s.Name):
		case s.Live:
			live[s.Name] = to.Text(s.Name)
		default:
			restart = append(restart, s.Name)
		}
	}
	return live, restart
}

// envPrefix is what the names of our variables begin with.
const envPrefix = "CLEAVE_"

// FindMisspelt returns the variables of an environment, in the form of os.Environ, that are not
// read but resemble one that is. Others are the variables read besides settings.
// A variable that resembles none belongs to another program, and is ignored.
func FindMisspelt(environ []string, others ...string) []Mistake {
	var known []string // without what all begin with: it would make any two alike
	for i := range settings {
		if settings[i].NoEnv {
			continue
		}
		known = append(known, strings.TrimPrefix(settings[i].EnvName(), envPrefix))
	}
	for _, name := range others {
		known = append(known, strings.TrimPrefix(name, envPrefix))
	}
	var found []Mistake
	for _, v := range environ {
		full, _, _ := strings.Cut(v, "=")
		name, ours := strings.CutPrefix(full, envPrefix)
		if !ours || slices.Contains(known, name) {
			continue
		}
		if near := Nearest(name, known); near != "" {
			found = append(found, Mistake{full, "the server does not read this variable: did you mean " + envPrefix + near + "?"})
		}
	}
	return found
}

// Nearest returns the one of the names that may have been meant, or nothing if none is
// like it. Beyond a third of the letters any name would be like any other.
func Nearest(name string, names []string) string {
	best, least := "", max(1, len(name)/3)
	for _, n := range names {
		if d := editDistance(name, n); d <= least && (best == "" || d < least) {
			best, least = n, d
		}
	}
	return best
}

// editDistance is how many letters are to be put in, left out, replaced or swapped with the
// next one to make a of b.
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1) // two rows of the table above this one
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = last[j]
			if a[i] != b[j] {
				row[j+1] = 1 + min(last[j], row[j], last[j+1])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], 1+before[j-1])
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
