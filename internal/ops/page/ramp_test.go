package page

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// readRamp returns the 256 colours of the heat map, mixed from its stops as lib/heat-ramp.js does.
func readRamp(t *testing.T) (ramp [256][3]float64) {
	t.Helper()
	script, err := embedded.ReadFile("assets/lib/heat-ramp.js")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(script), "export const stops = [")
	list, _, _ = strings.Cut(list, "];")
	var stops [][3]float64
	for _, found := range regexp.MustCompile(`\[(\d+), (\d+), (\d+)\]`).FindAllStringSubmatch(list, -1) {
		var stop [3]float64
		for k := range stop {
			stop[k], _ = strconv.ParseFloat(found[k+1], 64)
		}
		stops = append(stops, stop)
	}
	if len(stops) < 5 {
		t.Fatalf("heat-ramp.js has the stops %v", stops)
	}
	for i := range ramp {
		at := float64(i) / 255 * float64(len(stops)-1)
		n := min(int(at), len(stops)-2)
		for k := range 3 {
			ramp[i][k] = math.Round(stops[n][k] + (at-float64(n))*(stops[n+1][k]-stops[n][k]))
		}
	}
	return ramp
}

// sights are what people see of a colour, in linear light: the matrices of Viénot, Brettel and Mollon (1999) for protanopia and
// deuteranopia, and of Machado, Oliveira and Fernandes (2009) for tritanopia.
var sights = map[string][3][3]float64{
	"trichromatic": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protan":       {{0.11238, 0.88762, 0}, {0.11238, 0.88762, 0}, {0.00401, -0.00401, 1}},
	"deutan":       {{0.29275, 0.70725, 0}, {0.29275, 0.70725, 0}, {-0.02234, 0.02234, 1}},
	"tritan":       {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// lightnessOf is L* of CIELAB, as a sight has it.
func lightnessOf(color [3]float64, sight [3][3]float64) float64 {
	var linear, seen [3]float64
	for k, v := range color {
		if v /= 255; v <= 0.04045 {
			linear[k] = v / 12.92
		} else {
			linear[k] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	for i := range seen {
		for k := range linear {
			seen[i] += sight[i][k] * linear[k]
		}
		seen[i] = min(max(seen[i], 0), 1)
	}
	y := 0.2126*seen[0] + 0.7152*seen[1] + 0.0722*seen[2]
	if y <= 216.0/24389 {
		return y * 24389 / 27
	}
	return 116*math.Cbrt(y) - 16
}

// More is brighter, whichever colours somebody sees.
func TestRamp_LightnessGrows_ForEverySight(t *testing.T) {
	ramp := readRamp(t)
	for name, sight := range sights {
		for i := 1; i < len(ramp); i++ {
			if before, now := lightnessOf(ramp[i-1], sight), lightnessOf(ramp[i], sight); now < before {
				t.Errorf("%s: colour %d has the lightness %.2f, the one below %.2f", name, i, now, before)
			}
		}
		// Sixteen steps of it are told apart.
		for i := 0; i+16 < len(ramp); i += 16 {
			if d := lightnessOf(ramp[i+16], sight) - lightnessOf(ramp[i], sight); d < 2 {
				t.Errorf("%s: colours %d and %d are %.2f apart in lightness", name, i, i+16, d)
			}
		}
	}
}

// The scale beside the map has the same colours.
func TestRamp_LegendHasItsColours(t *testing.T) {
	style, err := embedded.ReadFile("assets/heatmap.css")
	if err != nil {
		t.Fatal(err)
	}
	ramp, n := readRamp(t), 0
	for _, found := range regexp.MustCompile(`#([0-9a-f]{6})`).FindAllString(string(style[strings.Index(string(style), "linear-gradient"):]), 11) {
		color := ramp[n*255/10]
		if n%2 == 0 && found != fmt.Sprintf("#%02x%02x%02x", int(color[0]), int(color[1]), int(color[2])) {
			t.Errorf("stop %d of the legend is %s, the ramp has %v", n, found, color)
		}
		n++
	}
	if n != 11 {
		t.Errorf("the legend has %d stops", n)
	}
}
