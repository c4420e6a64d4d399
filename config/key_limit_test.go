package config_test

import (
	"strings"
	"testing"
	"time"

	"shardway/config"
)

func TestKeyLimitIsParsed(t *testing.T) {
	for text, want := range map[string]config.KeyLimit{
		"":                      {},
		"off":                   {},
		"rate=10/s":             {Interval: 100 * time.Millisecond, Burst: 10},
		"rate=100/m":            {Interval: 600 * time.Millisecond, Burst: 1},
		" rate = 1/h ;burst=5 ": {Interval: time.Hour, Burst: 5},
		"concurrent=4; body-rate=1MiB; rate=2/s; burst=3": {Interval: time.Second / 2, Burst: 3, Concurrent: 4, BodyRate: 1 << 20},
	} {
		if got, err := config.ParseKeyLimit(text); got != want || err != nil {
			t.Errorf("%q = %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// Each mistake is reported with the parameter and a remedy.
func TestInvalidKeyLimitHasRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"10/s":                 "is not a parameter",
		"rate=":                "is not a parameter",
		"rate=10":              "like 10/s",
		"rate=0/s":             "out of bounds",
		"rate=10/d":            "like 10/s",
		"rate=1/s; rate=2/s":   "twice",
		"rat=1/s":              "did you mean rate?",
		"burst=3":              "without rate",
		"concurrent=0":         "concurrent: out of bounds",
		"concurrent=x":         "concurrent: not a whole number",
		"body-rate=x":          "body-rate: ",
		"rate=1/s;":            "is not a parameter",
		"rate=9999999999999/s": "out of bounds",
	} {
		_, err := config.Load([]string{"--key-limit=" + text}, nil, files(nil))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "key-limit") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// No text makes the parser fail in another way, and what it accepts has bounds.
func FuzzKeyLimit(f *testing.F) {
	for _, seed := range []string{"rate=10/s; burst=20; concurrent=4; body-rate=1MiB", "off", "rate=;=", "burst=1", "body-rate=1e9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := config.ParseKeyLimit(text)
		if err != nil {
			return
		}
		hasRate := limit.Interval > 0
		if limit.Interval < 0 || hasRate != (limit.Burst > 0) || limit.Burst < 0 || limit.Concurrent < 0 || limit.BodyRate < 0 || hasRate && limit.Interval < time.Microsecond {
			t.Errorf("%q = %+v", text, limit)
		}
	})
}
