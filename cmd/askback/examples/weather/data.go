package weather

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/askback-mcp/askback/internal/edits"
)

// observation is the weather at one place.
type observation struct {
	City       string
	Fahrenheit int
	Conditions string
}

func (o observation) String() string {
	return fmt.Sprintf("Current weather in %s:\nTemperature: %d°F\nConditions: %s", o.City, o.Fahrenheit, o.Conditions)
}

// atlas holds observations by folded city name.
type atlas struct {
	byName map[string]observation
	cities []string // as the data spells and orders them
}

//go:embed cities.csv
var citiesCSV []byte

// bundled returns the atlas of the embedded sample data.
func bundled() *atlas {
	a, err := parse(bytes.NewReader(citiesCSV))
	if err != nil {
		panic("weather: cities.csv: " + err.Error()) // a fault of the build
	}
	return a
}

func parse(r io.Reader) (*atlas, error) {
	rows := csv.NewReader(r)
	rows.Comment = '#'
	rows.FieldsPerRecord = 3
	if _, err := rows.Read(); err != nil {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	a := &atlas{byName: make(map[string]observation)}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := rows.FieldPos(0)
		temperature, err := strconv.Atoi(row[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: temperature of %s: %w", line, row[0], err)
		}
		key := fold(row[0])
		if other, taken := a.byName[key]; taken {
			return nil, fmt.Errorf("line %d: %s cannot be told from %s", line, row[0], other.City)
		}
		a.byName[key] = observation{City: row[0], Fahrenheit: temperature, Conditions: row[2]}
		a.cities = append(a.cities, row[0])
	}
}

// maxLocation is the longest location that is looked up, in bytes. It has room for the longest place names, and bounds
// the cost of an edit distance, which is the product of two lengths.
const maxLocation = 100

// find returns the observation at location. Its error is for the person who wrote the location: it names the cities
// that may have been meant.
func (a *atlas) find(location string) (observation, error) {
	location = strings.TrimSpace(location)
	if location == "" {
		return observation{}, errors.New(`location is empty; name a city, such as "New York"`)
	}
	if len(location) > maxLocation {
		return observation{}, fmt.Errorf("location is %d bytes long; a city's name has at most %d", len(location),
			maxLocation)
	}
	if o, ok := a.byName[fold(location)]; ok {
		return o, nil
	}
	if near := a.nearest(location); len(near) > 0 {
		return observation{}, fmt.Errorf("unknown city %q; did you mean %s?", location, strings.Join(near, ", "))
	}
	return observation{}, fmt.Errorf("unknown city %q; known cities are %s", location, strings.Join(a.cities, ", "))
}

// nearest returns up to three cities whose names are like location, the likeliest first.
func (a *atlas) nearest(location string) []string {
	var near []string
	away := make(map[string]int) // in edits
	for _, city := range a.cities {
		x, y := []rune(fold(location)), []rune(fold(city))
		away[city] = edits.Count(x, y)
		// Beyond half of the letters, a suggestion is noise.
		if 2*away[city] <= max(len(x), len(y)) {
			near = append(near, city)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return away[a] - away[b] })
	return near[:min(3, len(near))]
}

// fold maps the spellings of a name to one: lower case, no accents, single spaces.
func fold(name string) string {
	decomposed := norm.NFD.String(strings.ToLower(strings.Join(strings.Fields(name), " ")))
	return plain.Replace(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) { // an accent
			return -1
		}
		return r
	}, decomposed))
}

// plain maps the letters of the Latin scripts of Europe that have no decomposition to their plain spelling.
var plain = strings.NewReplacer("æ", "ae", "đ", "d", "ð", "d", "ħ", "h", "ı", "i", "ł", "l", "ŀ", "l",
	"ŉ", "n", "ø", "o", "œ", "oe", "ß", "ss", "þ", "th", "ŧ", "t")
