package keysource

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"shardway/internal/valueerr"
)

// Spec says where the keys of requests are, in the words of the configuration.
type Spec struct {
	// Sources are tried in order. Empty means Default.
	Sources []string
	// Routes give requests below a path prefix sources of their own. The longest
	// prefix counts.
	Routes []Route
}

// Route is one line of Spec.Routes. /api covers /api and whatever is below /api/,
// not /apix.
type Route struct {
	Prefix  string
	Sources []string
}

// Choice is where the key of a request may be.
type Choice struct {
	Sources []Source // tried in order; never empty
	Wants   string   // the same, for people
}

// Table finds the sources of a request by its path.
type Table struct {
	all    Choice
	routes []route // longest prefix first
}

type route struct {
	prefix string
	Choice
}

// NewTable reads a Spec. The error joins one *valueerr.Error for each mistake in it,
// of the key "key" or "routes".
func NewTable(spec Spec) (*Table, error) {
	var problems []error
	t := &Table{}
	sources := spec.Sources
	if len(sources) == 0 {
		sources = []string{Default}
	}
	t.all = choice("key", "", sources, &problems)
	if slices.ContainsFunc(t.all.Sources, isMint) {
		problems = append(problems, MintEverywhere())
	}
	spelled := make(map[string]string, len(spec.Routes)) // by what is read
	for _, r := range spec.Routes {
		prefix, err := parsePrefix(r.Prefix)
		if err != nil {
			problems = append(problems, err)
		} else if first, twice := spelled[prefix]; twice {
			problems = append(problems, &valueerr.Error{
				Key: "routes", Value: r.Prefix, Wrong: strconv.Quote(r.Prefix) + " is the same path prefix as " + strconv.Quote(first), Remedy: "keep one of them",
			})
		} else {
			spelled[prefix] = r.Prefix
		}
		if len(r.Sources) == 0 {
			problems = append(problems, &valueerr.Error{
				Key: "routes", Value: r.Prefix, Wrong: "there is no key source for " + strconv.Quote(r.Prefix), Remedy: "write one, like header:X-Tenant",
			})
		}
		t.routes = append(t.routes, route{prefix, choice("routes", strconv.Quote(r.Prefix)+": ", r.Sources, &problems)})
	}
	slices.SortStableFunc(t.routes, func(a, b route) int { return len(b.prefix) - len(a.prefix) })
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return t, nil
}

func isMint(s Source) bool { return s.Kind == Mint }

// MintEverywhere is the mistake of a key that is minted for every request: nobody could
// come back to what one has created.
func MintEverywhere() error {
	return &valueerr.Error{Key: "key", Value: "mint", Wrong: "a fresh key for every request would let none come back", Remedy: "name mint for a path under routes, for the requests that create"}
}

// choice reads the sources of one line.
func choice(key, where string, texts []string, problems *[]error) Choice {
	var c Choice
	words := make([]string, 0, len(texts))
	for _, text := range texts {
		s, err := Parse(text)
		if m := (*valueerr.Error)(nil); errors.As(err, &m) {
			m.Key = key
			m.Wrong = where + strconv.Quote(text) + ": " + m.Wrong
			*problems = append(*problems, m)
			continue
		}
		c.Sources, words = append(c.Sources, s), append(words, s.String())
	}
	if len(texts) > 1 && key == "routes" && slices.ContainsFunc(c.Sources, isMint) {
		*problems = append(*problems, &valueerr.Error{
			Key: key, Value: strings.Join(texts, ","), Wrong: where + "mint has other sources beside it, of which none would count", Remedy: "name mint alone, for the paths that create",
		})
	}
	c.Wants = strings.Join(words, ", ")
	return c
}

// parsePrefix returns a path prefix as ReadPath would a path.
func parsePrefix(text string) (string, error) {
	wrong := func(remedy string) (string, error) {
		return "", &valueerr.Error{Key: "routes", Value: text, Wrong: strconv.Quote(text) + " is not a path prefix", Remedy: remedy}
	}
	if !strings.HasPrefix(text, "/") {
		return wrong("begin it with a slash")
	}
	if strings.ContainsAny(text, " \t\r\n#") {
		return wrong("write blanks as %20 and # as %23")
	}
	p := ReadPath(nil, []byte(text))
	if p.dots || p.sure <= len(text) {
		return wrong("write it without ., .., empty segment, \\ and ;: paths with them are refused")
	}
	return string(p.path), nil
}

// Routed reports whether the path decides where a key is looked for.
func (t *Table) Routed() bool { return len(t.routes) > 0 }

// All returns where the keys of requests are that no route covers.
func (t *Table) All() *Choice { return &t.all }

// Choose returns where the key of a request to that path is. Not sure means that
// another reader of the path may find it below another prefix.
func (t *Table) Choose(p *Reading) (c *Choice, sure bool) {
	if p.dots {
		return nil, false
	}
	for i := range t.routes {
		if prefix := t.routes[i].prefix; covers(prefix, p.path) {
			sure = p.sure > len(prefix) || p.sure == len(prefix) && strings.HasSuffix(prefix, "/")
			return &t.routes[i].Choice, sure
		}
	}
	return &t.all, true
}

// covers reports whether path is prefix or lies below it.
func covers(prefix string, path []byte) bool {
	if len(path) < len(prefix) || string(path[:len(prefix)]) != prefix {
		return false
	}
	return len(path) == len(prefix) || strings.HasSuffix(prefix, "/") || path[len(prefix)] == '/'
}
