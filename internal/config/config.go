package config

import (
	"fmt"
	"os"
	"strconv"
)

// Config is what a server is to be like.
type Config struct{ values map[string]said }

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
	c := &Config{values: map[string]said{}}
	if from.File != "" {
		data, err := os.ReadFile(from.File)
		if err != nil {
			return nil, err
		}
		c.values = parseFile(from.File, data, &wrong)
	}
	for i := range settings {
		s := &settings[i]
		if from.Env != nil {
			if text, ok := from.Env(s.Env()); ok {
				c.take(s, text, s.Env(), &wrong)
			}
		}
		if text, ok := from.Flags[s.Name]; ok {
			c.take(s, text, "--"+s.Name, &wrong)
		}
		if _, ok := c.values[s.Name]; !ok {
			c.values[s.Name] = said{s.Default, "default"}
		}
	}
	if len(wrong) == 0 { // relations of what is wrong itself would mislead
		c.relate(&wrong)
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// take sets a value over what was there.
func (c *Config) take(s *Setting, text, place string, wrong *Mistakes) {
	parsed, err := s.Parse(text)
	if err != nil {
		wrong.add(place, "%q: %v", shown(s, text), err)
	}
	c.values[s.Name] = said{parsed, place}
}

// relate finds settings that do not go together.
func (c *Config) relate(wrong *Mistakes) {
	if c.Number("tls-port") == 0 {
		for _, name := range []string{"tls-cert-file", "tls-key-file"} {
			if c.Text(name) != "" {
				wrong.add(c.From(name), "%s is for tls-port: say where to listen", name)
			}
		}
		return
	}
	for _, name := range []string{"tls-cert-file", "tls-key-file"} {
		if c.Text(name) == "" {
			wrong.add(c.From("tls-port"), "tls-port needs %s", name)
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

// From tells who said what a setting is: a place in the file, the name of a variable or
// of a flag, or "default".
func (c *Config) From(name string) string { return c.values[name].place }

// ForClients returns the settings that clients know, by their names.
func (c *Config) ForClients() map[string]string {
	m := map[string]string{}
	for i := range settings {
		if settings[i].Redis {
			m[settings[i].Name] = c.Text(settings[i].Name)
		}
	}
	return m
}

// Changes returns the settings that are not the same in another configuration: those
// that can change while the server runs with their new values, and the names of those
// that wait for a restart.
func (c *Config) Changes(to *Config) (live map[string]string, restart []string) {
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
