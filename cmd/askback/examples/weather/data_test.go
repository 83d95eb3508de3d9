package weather

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewYorkReadsAsInTheProposal(t *testing.T) {
	o, err := bundled().find("New York")
	if err != nil {
		t.Fatal(err)
	}
	want := "Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy"
	if diff := cmp.Diff(want, o.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestBundledDataIsSampleDataOfTheWorld(t *testing.T) {
	if !strings.HasPrefix(string(citiesCSV), "# Sample data") {
		t.Error("cities.csv does not open by saying that it is sample data")
	}
	a := bundled()
	if len(a.cities) < 25 {
		t.Errorf("%d cities, want at least 25", len(a.cities))
	}
	for _, city := range a.cities {
		o := a.byName[fold(city)]
		if o.City != city || o.Conditions == "" || o.Fahrenheit < -60 || o.Fahrenheit > 130 {
			t.Errorf("%s: implausible observation %+v", city, o)
		}
	}
}

func TestACityIsFoundHoweverItIsSpelled(t *testing.T) {
	for _, tt := range []struct{ location, city string }{
		{"New York", "New York"},
		{"new york", "New York"},
		{"NEW YORK", "New York"},
		{"  New York\n", "New York"},
		{"New \t York", "New York"},
		{"zurich", "Zürich"},
		{"ZÜRICH", "Zürich"},
		{"Zu\u0308rich", "Zürich"}, // decomposed
		{"Sao Paulo", "São Paulo"},
		{"krakow", "Kraków"},
		{"bogota", "Bogotá"},
		{"İstanbul", "Istanbul"},
		{"Łondon", "London"},
	} {
		o, err := bundled().find(tt.location)
		if err != nil || o.City != tt.city {
			t.Errorf("find(%q) = %q, %v; want %q", tt.location, o.City, err, tt.city)
		}
	}
}

func TestAnUnknownCityIsAnsweredWithWhatMayHaveBeenMeant(t *testing.T) {
	for _, tt := range []struct{ location, want string }{
		{"New Yrok", `unknown city "New Yrok"; did you mean New York?`},
		{" York ", `unknown city "York"; did you mean New York?`},
		{"Lodnon", `unknown city "Lodnon"; did you mean London, Lisbon?`},
		{"Kair\"o", `unknown city "Kair\"o"; did you mean Cairo?`},
		{"", `location is empty; name a city, such as "New York"`},
		{" \n", `location is empty; name a city, such as "New York"`},
	} {
		_, err := bundled().find(tt.location)
		if err == nil || err.Error() != tt.want {
			t.Errorf("find(%q):\n got %v\nwant %s", tt.location, err, tt.want)
		}
	}
}

func TestAtMostThreeCitiesAreSuggested(t *testing.T) {
	a, err := parse(strings.NewReader("city,temperature,conditions\nAab,1,Sunny\nAac,1,Sunny\nAad,1,Sunny\nAaa,1," +
		"Sunny\nQqq,1,Sunny\n"))
	if err != nil {
		t.Fatal(err)
	}
	// Equally near names come in the order of the data.
	if diff := cmp.Diff([]string{"Aab", "Aac", "Aad"}, a.nearest("aax")); diff != "" {
		t.Errorf("nearest (-want +got):\n%s", diff)
	}
}

func TestALocationLikeNoCityIsAnsweredWithAllOfThem(t *testing.T) {
	_, err := bundled().find("xyzzyxyzzy")
	if err == nil || !strings.HasPrefix(err.Error(), `unknown city "xyzzyxyzzy"; known cities are Amsterdam, Athens, `) {
		t.Errorf("got %v", err)
	}
}

func TestAnOverlongLocationIsNeitherComparedNorEchoed(t *testing.T) {
	for _, location := range []string{
		strings.Repeat("x", maxLocation+1),
		strings.Repeat("New York ", 1_000_000),
		strings.Repeat("\x00", 5000),
		strings.Repeat("ß", maxLocation),
	} {
		_, err := bundled().find(location)
		if err == nil || len(err.Error()) > 100 || !strings.HasPrefix(err.Error(), "location is ") {
			t.Errorf("find(%d bytes): %.200v", len(location), err)
		}
	}
	if _, err := bundled().find(strings.Repeat("x", maxLocation)); err == nil ||
		!strings.HasPrefix(err.Error(), "unknown city") {
		t.Errorf("a location of the greatest length: %v", err)
	}
}

func TestBrokenDataIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, data, want string }{
		{"empty", "", "reading the header: EOF"},
		{"temperature", "c,t,w\nOslo,cold,Snow\n", `line 2: temperature of Oslo: strconv.Atoi: parsing "cold": ` +
			`invalid syntax`},
		{"missing column", "c,t,w\nOslo,1\n", "record on line 2: wrong number of fields"},
		{"twice", "c,t,w\nMalmö,1,Snow\nMALMO,2,Rain\n", "line 3: MALMO cannot be told from Malmö"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(strings.NewReader(tt.data))
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func FuzzFind(f *testing.F) {
	a := bundled()
	for _, city := range a.cities {
		f.Add(city)
	}
	f.Add("\xff\xfe")
	f.Add("İ\u0308ß")
	f.Fuzz(func(t *testing.T, location string) {
		o, err := a.find(location)
		if err == nil {
			if again, err := a.find(o.City); err != nil || again != o {
				t.Errorf("find(%q) is %s, which is not found: %v", location, o.City, err)
			}
			return
		}
		if len(err.Error()) > 2000 {
			t.Errorf("find(%.50q): an error of %d bytes", location, len(err.Error()))
		}
	})
}
