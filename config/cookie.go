package config

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"shardway/internal/valueerr"
	"shardway/keysource"
)

// Bounds of the parameter max-age. RFC 6265bis, section 4.1.2.2, limits it to 400 days.
const (
	minCookieAge = time.Second
	maxCookieAge = 400 * 24 * time.Hour
)

// cookieForm is the remedy for a text that does not describe a cookie.
const cookieForm = "write parameters like name=app-key; samesite=lax; max-age=720h; path=/; domain=example.com"

// cookieNames returns the names of the parameters.
func cookieNames() []string {
	return []string{"name", "path", "domain", "samesite", "max-age", "secure", "httponly"}
}

// ParseCookie parses a text such as "name=app-key; samesite=none; secure=true; max-age=720h". All
// parameters are optional, but an empty text has none. The text must have passed the checks of Validate;
// ParseCookie returns an error otherwise.
func ParseCookie(text string) (keysource.StickyCookie, error) {
	cookie, problem := parseCookie(text)
	if problem != nil {
		return keysource.StickyCookie{}, fmt.Errorf("config: cookie %q: %s; %s", text, problem.message, problem.remedy)
	}
	return cookie, nil
}

// checkCookie checks the text of the setting cookie.
func checkCookie(text string) *valueProblem {
	_, problem := parseCookie(text)
	return problem
}

// parseCookie parses the attributes of the sticky cookie.
func parseCookie(text string) (keysource.StickyCookie, *valueProblem) {
	var cookie keysource.StickyCookie
	if text == "" {
		return cookie, nil
	}
	parameters, problem := parseParameters(text, cookieNames(), cookieForm)
	if problem != nil {
		return cookie, problem
	}
	for _, parameter := range parameters {
		if problem := setCookieParameter(&cookie, parameter.name, parameter.value); problem != nil {
			problem.message = parameter.name + "=" + parameter.value + ": " + problem.message
			return keysource.StickyCookie{}, problem
		}
	}
	if problem := cookieProblemOf(cookie.Check()); problem != nil {
		return keysource.StickyCookie{}, problem
	}
	switch {
	case cookie.AlwaysSecure:
	case cookie.SameSite == keysource.SameSiteNone:
		return keysource.StickyCookie{}, &valueProblem{"samesite=none: browsers refuse such a cookie without the attribute Secure", "add secure=true, or use samesite=lax"}
	case cookie.RequiresSecure():
		return keysource.StickyCookie{}, &valueProblem{"name=" + cookie.Name + ": browsers refuse a cookie of this name without the attribute Secure", "add secure=true, or use another name"}
	}
	return cookie, nil
}

// setCookieParameter sets one parameter of the cookie. CookieScope.Check validates the scope afterwards.
func setCookieParameter(cookie *keysource.StickyCookie, name, text string) *valueProblem {
	switch name {
	case "name":
		cookie.Name = text
	case "path":
		cookie.Path = text
	case "domain":
		cookie.Domain = text
	case "samesite":
		return parseAndCheck(choiceValue[keysource.SameSite]{&cookie.SameSite, []keysource.SameSite{keysource.SameSiteLax, keysource.SameSiteStrict, keysource.SameSiteNone}}, text)
	case "max-age":
		problem := parseAndCheck(durationValue{&cookie.MaxAge, minCookieAge, maxCookieAge, false}, text)
		if problem == nil && cookie.MaxAge%time.Second != 0 {
			problem = &valueProblem{"not a whole number of seconds", "write it like 90s, 12h or 720h"}
		}
		return problem
	case "secure":
		return parseAndCheck(boolWord{field: &cookie.AlwaysSecure, ifFalse: "auto", ifTrue: "true"}, text)
	case "httponly": // the opposite of AllowScripts, so "false" sets it
		return parseAndCheck(boolWord{field: &cookie.AllowScripts, ifFalse: "true", ifTrue: "false"}, text)
	}
	return nil // parseParameters has refused all other names
}

// boolWord is a Boolean setting with its own words for false and true, such as auto for a cookie that
// is secure only if the request is.
type boolWord struct {
	field           *bool
	ifFalse, ifTrue string // the accepted words
}

func (v boolWord) set(texts []string) *valueProblem {
	*v.field = texts[0] == v.ifTrue
	if texts[0] != v.ifTrue && texts[0] != v.ifFalse {
		return &valueProblem{"unknown value", "choose one of " + v.ifFalse + ", " + v.ifTrue}
	}
	return nil
}

func (boolWord) check() *valueProblem { return nil }

func (v boolWord) String() string { return strconv.FormatBool(*v.field) }

// parseAndCheck sets a value from text, and checks the new value.
func parseAndCheck(value settingValue, text string) *valueProblem {
	if problem := value.set([]string{text}); problem != nil {
		return problem
	}
	return value.check()
}

// cookieProblemOf converts an error of package keysource about the parameter that its Key names.
func cookieProblemOf(err error) *valueProblem {
	problem := problemOf(err)
	if valueErr := (*valueerr.Error)(nil); errors.As(err, &valueErr) {
		problem.message = valueErr.Key + "=" + valueErr.Value + ": " + problem.message
	}
	return problem
}

// cookieScope returns the scope of the sticky cookie. An invalid text has the default scope, because
// findProblems reports it.
func (c *Config) cookieScope() keysource.CookieScope {
	cookie, _ := parseCookie(c.Cookie)
	return cookie.CookieScope
}

// canonicalCookie returns the same text for equivalent values of the setting cookie.
func (c *Config) canonicalCookie() string {
	cookie, _ := parseCookie(c.Cookie)
	scope := cookie.WithDefaults()
	text := "name=" + scope.Name + "; path=" + scope.Path
	if scope.Domain != "" {
		text += "; domain=" + strings.ToLower(scope.Domain)
	}
	text += "; samesite=" + string(cmp.Or(cookie.SameSite, keysource.SameSiteLax))
	if cookie.MaxAge > 0 {
		text += "; max-age=" + formatDuration(cookie.MaxAge)
	}
	if cookie.AlwaysSecure {
		text += "; secure=true"
	}
	if cookie.AllowScripts {
		text += "; httponly=false"
	}
	return text
}

// cookieRules returns the rules between the setting cookie and the sources of the key.
func (c *Config) cookieRules() []rule {
	rules := []rule{{
		"cookie", "on-missing-key", c.Cookie == "" || c.OnMissingKey == keysource.MissingCookie || c.HasServices(),
		"Shardway sets a cookie only for requests without a key, and on-missing-key is " + string(c.OnMissingKey),
		"set on-missing-key to cookie, or remove it",
	}}
	if problem := cookieProblemOf(c.KeyConfig().CheckCookie()); problem != nil {
		rules = append(rules, rule{"cookie", "key", false, problem.message, problem.remedy})
	}
	return rules
}
