package config_test

import (
	"strings"
	"testing"
	"time"

	"shardway/config"
	"shardway/keysource"
)

func TestCookieIsParsed(t *testing.T) {
	for text, want := range map[string]keysource.StickyCookie{
		"":         {},
		"name=app": {CookieScope: keysource.CookieScope{Name: "app"}},
		" name = app ;path=/a/; domain=Example.com;samesite=strict; max-age=9600h; secure=auto; httponly=true": {
			CookieScope: keysource.CookieScope{Name: "app", Path: "/a/", Domain: "Example.com"}, SameSite: keysource.SameSiteStrict, MaxAge: 9600 * time.Hour,
		},
		"samesite=none; secure=true; httponly=false": {SameSite: keysource.SameSiteNone, AlwaysSecure: true, AllowScripts: true},
		"name=__Host-k; secure=true; path=/":         {CookieScope: keysource.CookieScope{Name: "__Host-k", Path: "/"}, AlwaysSecure: true},
	} {
		if got, err := config.ParseCookie(text); got != want || err != nil {
			t.Errorf("%q = %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// Each mistake is reported with the parameter, its value and a remedy.
func TestInvalidCookieHasRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"app":                                  "is not a parameter",
		"name=":                                "is not a parameter",
		"name=a;":                              "is not a parameter",
		"name=a; name=b":                       "twice",
		"nam=a":                                "did you mean name?",
		"name=a b":                             "name=a b: not the name of a cookie",
		"name=a\tb":                            "not the name of a cookie",
		"name=a=b":                             "not the name of a cookie",
		"name=ä":                               "not the name of a cookie",
		"name=a,b":                             "not the name of a cookie",
		"name=" + strings.Repeat("a", 256):     "not the name of a cookie",
		"path=app":                             "path=app: not a plain path",
		"path=/a//b":                           "not a plain path",
		"path=/a/../b":                         "not a plain path",
		"path=/%61":                            "not a plain path",
		"path=/a\r\nx":                         "not a plain path",
		"domain=.example.com":                  "without a dot in front",
		"domain=example.com:80":                "not a domain",
		"domain=10.0.0.1":                      "not a domain",
		"domain=localhost":                     "not a domain",
		"domain=a..com":                        "not a domain",
		"domain=-a.com":                        "not a domain",
		"domain=a.com\r\n":                     "", // blanks around a value are removed
		"samesite=Lax":                         "samesite=Lax: unknown value",
		"samesite=none":                        "add secure=true",
		"max-age=30d":                          "max-age=30d: not a duration",
		"max-age=3600":                         "name the unit",
		"max-age=0s":                           "out of bounds",
		"max-age=1.5s":                         "whole number of seconds",
		"max-age=9601h":                        "to 9600h",
		"max-age=-1h":                          "out of bounds",
		"secure=yes":                           "secure=yes: unknown value",
		"secure=false":                         "choose one of auto, true",
		"httponly=no":                          "choose one of true, false",
		"name=__Secure-k":                      "add secure=true",
		"name=__host-k":                        "add secure=true",
		"name=__Host-k; secure=true; path=/a":  "remove the path",
		"name=__Host-k; secure=true; domain=a": "not a domain",
		"name=__HOST-k; secure=true; domain=example.com": "remove the domain",
	} {
		_, err := config.Load([]string{"--on-missing-key=cookie", "--cookie=" + text}, nil, files(nil))
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "config: cookie = ") || strings.Count(err.Error(), "config: ") != 1 {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The cookie requires the policy that sets it, and must not be a cookie that the app sets.
func TestCookieConflictsAreReported(t *testing.T) {
	for args, want := range map[string]string{
		"--cookie=name=a": "set on-missing-key to cookie",
		"--on-missing-key=cookie --cookie=name=sid --key=header:X,cookie:SID":    "the key source cookie:SID reads the same cookie",
		"--on-missing-key=cookie --cookie=name=sid --key=wrap:cookie:sid":        "the key source wrap:cookie:sid",
		"--on-missing-key=cookie --cookie=name=sid --key=jwt:sub@cookie:sid":     "the key source jwt:sub@cookie:sid",
		"--on-missing-key=cookie --cookie=name=sid --key=host+cookie:sid":        "the key source host+cookie:sid",
		"--on-missing-key=cookie --cookie=name=sid --key=cookie:other":           "",
		"--on-missing-key=cookie --key=cookie:Shardway-Key":                      "",
		"--on-missing-key=cookie --cookie=name=a --cookie=name=b --key=header:X": "cookie",
	} {
		_, err := config.Load(strings.Fields(args), nil, files(nil))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "config: ") != 1) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// All nodes must agree on the scope of the cookie. Its other attributes are compared only.
func TestCookieIsComparedBetweenNodes(t *testing.T) {
	load := func(text string) (config.Config, string) {
		t.Helper()
		c, err := config.Load([]string{"--on-missing-key=cookie", "--cookie=" + text}, nil, files(nil))
		if err != nil {
			t.Fatal(err)
		}
		keys, err := c.KeyConfig().Canonical()
		if err != nil {
			t.Fatal(err)
		}
		return c, keys
	}
	plain, plainKeys := load("")
	same, sameKeys := load("path=/; name=Shardway-Key; samesite=lax; secure=auto; httponly=true")
	if plainKeys != sameKeys || strings.Contains(plainKeys, `"cookie":`) || plain.ClusterSettings()["cookie"] != same.ClusterSettings()["cookie"] {
		t.Errorf("equivalent settings differ: %s, %s", plainKeys, sameKeys)
	}
	aged, agedKeys := load("max-age=1h; secure=true; httponly=false")
	if plainKeys != agedKeys || aged.ClusterSettings()["cookie"] == plain.ClusterSettings()["cookie"] {
		t.Errorf("max-age: %s, %s", agedKeys, aged.ClusterSettings()["cookie"])
	}
	for _, text := range []string{"name=a", "path=/a", "domain=example.com"} {
		c, keys := load(text)
		if keys == plainKeys || c.ClusterSettings()["cookie"] == plain.ClusterSettings()["cookie"] {
			t.Errorf("%s does not change the key configuration %s", text, keys)
		}
		if changes := c.ChangesSince(&plain); len(changes.Live) != 1 || changes.Live[0] != "cookie" || len(changes.Restart) > 0 {
			t.Errorf("%s: changes = %+v", text, changes)
		}
	}
	upper, upperKeys := load("domain=EXAMPLE.com")
	lower, lowerKeys := load("domain=example.com")
	if upperKeys != lowerKeys || upper.ClusterSettings()["cookie"] != lower.ClusterSettings()["cookie"] {
		t.Errorf("case of the domain: %s, %s", upperKeys, lowerKeys)
	}
}

// A cookie that the parser accepts cannot change the syntax of the Set-Cookie field, and the canonical key
// configuration contains it.
func FuzzCookie(f *testing.F) {
	for _, seed := range []string{"name=a; path=/b; domain=example.com; samesite=none; secure=true; max-age=1h; httponly=false", "name=__Host-a; secure=true", "path=/\x00", "domain=a.b\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cookie, err := config.ParseCookie(text)
		if err != nil {
			return
		}
		if all := cookie.Name + cookie.Path + cookie.Domain; strings.ContainsFunc(all, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`;,"\`, r) }) {
			t.Errorf("%q: %+v", text, cookie)
		}
		if cookie.MaxAge < 0 || cookie.MaxAge > 400*24*time.Hour {
			t.Errorf("%q: %+v", text, cookie)
		}
		keys := keysource.Config{Missing: keysource.MissingCookie, Cookie: cookie.CookieScope}
		canonical, err := keys.Canonical()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if read, err := keysource.ParseConfig(canonical); err != nil || !strings.EqualFold(read.Cookie.WithDefaults().Domain, cookie.Domain) || read.Cookie.WithDefaults().Name != cookie.WithDefaults().Name {
			t.Errorf("%q: %s: %+v, %v", text, canonical, read.Cookie, err)
		}
	})
}
