package shardkey

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"

	"shardway/internal/problem"
	"shardway/keysource"
	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
)

// StickyCookie is the cookie that on-missing-key: cookie sets and reads.
const StickyCookie = "Shardway-Key"

// mintedLen is the length of its value, and of a key that was minted: 128 bits in
// hexadecimal.
const mintedLen = 32

// Refusals of requests that name a key in a way the app may read otherwise.
const (
	badTwoKeys  = "two different keys in "
	badUnseen   = "the Connection header removes what the key is read from: "
	badPath     = "an ambiguous path (., .., an empty segment, an encoded slash, \\ or ;) for "
	badPathHint = "the routes"
)

// Extractor finds the keys of one client's requests. It knows what was asked and by
// whom, and nothing of what becomes of it.
type Extractor struct {
	Request        *h1.Request
	Client         *forwarded.Client
	TrustedProxies []netip.Prefix             // the trusted proxies of the settings
	Keys           *Keys                      // by which keys are found; nil: no key has been looked for yet
	scratch        []byte                     // where what it returns may stand until it is asked again
	Place          func(key []byte) Placement // of a key that is made; nil: anywhere
}

// Found is where a request belongs.
type Found struct {
	Key     []byte
	Keyless bool   // no key: any app will do, that of this node first
	Minted  bool   // the key was made for this request (keysource.Mint)
	Cookie  []byte // value of the sticky cookie to set
}

// Find finds the key of the request, or says why it is refused. A gateway has no app
// of its own.
func (f *Extractor) Find(gateway bool) (Found, *problem.Problem) {
	table := f.Keys.table
	choice := table.Defaults()
	if table.HasRoutes() {
		p := keysource.ParsePath(f.Grow(len(f.Request.Path())), f.Request.Path())
		var sure bool
		if choice, sure = table.Match(&p); !sure {
			return Found{}, ambiguous(badPath, badPathHint)
		}
	}
	for i := range choice.Sources {
		key, bad := f.keyFrom(&choice.Sources[i])
		if bad != "" {
			return Found{}, ambiguous(bad, choice.Sources[i].String())
		}
		if key != nil {
			return Found{Key: key, Minted: choice.Sources[i].Kind == keysource.Mint}, nil
		}
	}
	return f.withoutKey(choice, gateway)
}

// ambiguous refuses a request whose key this node and the app could read differently:
// it may own the shard of one reading only.
func ambiguous(bad, where string) *problem.Problem {
	return &problem.Problem{Code: problem.BadRequest, Detail: bad + where, Param: where}
}

// noKeyRemedy ends the detail of a request without a key: the client or the operator can act.
const noKeyRemedy = "; send the key there, or name its place with --key, or set --on-missing-key"

// withoutKey does as on-missing-key says. A preflight cannot carry the header that a key
// may be looked for in (WHATWG Fetch, section 4.8), so it is not refused for that: any
// app may answer it.
func (f *Extractor) withoutKey(choice *keysource.SourceList, gateway bool) (Found, *problem.Problem) {
	switch f.Keys.missing {
	case keysource.MissingLocal:
		if gateway && !f.preflight() {
			return Found{}, &problem.Problem{Code: problem.NoKey, Detail: "looked for " + choice.Wants + f.structured(choice) + "; this node is a gateway without an app"}
		}
		return Found{Keyless: true}, nil
	case keysource.MissingHashPath:
		return Found{Key: keysource.NormalPath(f.scratch, f.Request.Path())}, nil
	case keysource.MissingCookie:
		return f.sticky(), nil
	case keysource.MissingReject:
	}
	if f.preflight() {
		return Found{Keyless: true}, nil
	}
	return Found{}, &problem.Problem{Code: problem.NoKey, Detail: "looked for " + choice.Wants + f.structured(choice) + noKeyRemedy, Param: choice.Wants}
}

// structured names the claims of a token that are there and give no key, because they are
// arrays or objects. Empty means that there are none.
func (f *Extractor) structured(choice *keysource.SourceList) string {
	for _, s := range choice.Sources {
		if s.Kind != keysource.JWT {
			continue
		}
		token, _ := f.headerKey("Authorization")
		raw := rawClaim(token, s.Name)
		switch {
		case len(raw) == 0:
		case raw[0] == '[':
			return "; the claim " + strconv.Quote(s.Name) + " is an array, and a key is a string, a number or a boolean"
		case raw[0] == '{':
			return "; the claim " + strconv.Quote(s.Name) + " is an object, and a key is a string, a number or a boolean"
		}
	}
	return ""
}

// preflight reports whether a browser asks what it may ask.
func (f *Extractor) preflight() bool {
	return string(f.Request.Method()) == "OPTIONS" && len(f.Request.Value("Access-Control-Request-Method")) > 0
}

// keyFrom returns the key that a source gives, nil without one, or why the
// request is refused.
func (f *Extractor) keyFrom(s *keysource.Source) (key []byte, bad string) {
	switch s.Kind {
	case keysource.Header:
		return f.headerKey(s.Name)
	case keysource.Path:
		p := keysource.ParsePath(f.Grow(len(f.Request.Path())), f.Request.Path())
		segment, sure := p.Segment(s.Segment)
		if !sure {
			return nil, badPath
		}
		return segment, ""
	case keysource.Query:
		v, same := queryValue(f.Grow(len(f.Request.Query())), f.Request.Query(), s.Name)
		if !same {
			return nil, badTwoKeys
		}
		return v, ""
	case keysource.Cookie:
		return f.cookie(s.Name)
	case keysource.Host:
		return hostName(f.Grow(len(f.Request.Host())), f.Request.Host()), ""
	case keysource.JWT:
		token, bad := f.headerKey("Authorization")
		return jwtClaim(token, s.Name), bad
	case keysource.IP:
		return f.clientIPBehind(f.proxies()), ""
	case keysource.Mint:
		return f.mint(f.Grow(mintRoom)), ""
	}
	return nil, ""
}

// headerKey returns the value that the header lines of that name have, those with
// _ for - included: an app may take any of them for the key. What does not go on
// to the app is not there.
func (f *Extractor) headerKey(name string) (key []byte, bad string) {
	for i := f.Request.FindAlike(name, 0); i >= 0; i = f.Request.FindAlike(name, i+1) {
		_, v := f.Request.Field(i)
		if f.Request.Class(i) == h1.FieldHost {
			v = f.Request.Host() // what the app gets, also of an absolute-form target
		}
		switch {
		case len(v) == 0 || f.removed().Has(f.Request.Class(i)):
		case f.Request.Named(i):
			return nil, badUnseen
		case key == nil:
			key = v
		case !bytes.Equal(v, key):
			return nil, badTwoKeys
		}
	}
	return key, ""
}

// removed returns the fields that no app sees as the client sent them.
func (f *Extractor) removed() h1.Set {
	if _, trusted := f.proxies(); trusted {
		return h1.HopByHop | h1.Shardway | h1.Lookalikes
	}
	return h1.HopByHop | h1.Shardway | h1.Lookalikes | h1.Forwarding
}

// cookie returns the first cookie of that name, and what speaks against it.
func (f *Extractor) cookie(name string) (key []byte, bad string) {
	for i := f.Request.Find("Cookie", 0); i >= 0; i = f.Request.Find("Cookie", i+1) {
		_, field := f.Request.Field(i)
		v, same := cookieValue(field, name)
		if v == nil && same {
			continue
		}
		if key == nil {
			key = v
		}
		switch {
		case f.Request.Named(i):
			bad = badUnseen
		case !same || !bytes.Equal(v, key):
			bad = badTwoKeys
		}
	}
	return key, bad
}

// Grow returns f.scratch with room for n bytes.
func (f *Extractor) Grow(n int) []byte {
	if cap(f.scratch) < n {
		f.scratch = make([]byte, 0, n)
	}
	return f.scratch[:0]
}

// sticky takes the key from the sticky cookie, or makes one that the answer will set.
// A value that this proxy cannot have set is replaced.
func (f *Extractor) sticky() Found {
	// Of several the first one counts: the app goes by Shardway-Key, not by the cookie.
	if v, _ := f.cookie(StickyCookie); len(v) == mintedLen && isHex(v) {
		return Found{Key: v}
	}
	v := f.mint(make([]byte, 0, mintRoom))
	return Found{Key: v, Cookie: v}
}

func isHex(v []byte) bool {
	for _, b := range v {
		digit := b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
		if !digit {
			return false
		}
	}
	return true
}

// ClientIP returns the address of the client that a request is from: of the
// connection, or behind trusted proxies the last one that none of them is.
func (f *Extractor) ClientIP() []byte {
	return f.clientIPBehind(f.TrustedProxies, f.Client.Trusted)
}

// proxies returns the networks whose forwarding headers count for keys, and whether the
// connection comes from one of them.
func (f *Extractor) proxies() (proxies []netip.Prefix, trusted bool) {
	if f.Keys != nil && f.Keys.usesProxies {
		return f.Keys.proxies, forwarded.IsTrusted(f.Client.Addr, f.Keys.proxies)
	}
	return f.TrustedProxies, f.Client.Trusted
}

// clientIPBehind is clientIP with other trusted proxies.
func (f *Extractor) clientIPBehind(proxies []netip.Prefix, trusted bool) []byte {
	f.scratch = append(f.scratch[:0], f.Client.Text...)
	if !trusted {
		return f.scratch
	}
	const name = "X-Forwarded-For"
	var lines [][]byte
	for i := f.Request.Find(name, 0); i >= 0; i = f.Request.Find(name, i+1) {
		_, v := f.Request.Field(i)
		lines = append(lines, v)
	}
	list := bytes.Split(bytes.Join(lines, []byte(",")), []byte(","))
	for _, entry := range slices.Backward(list) {
		a, err := netip.ParseAddr(string(bytes.TrimSpace(entry)))
		if err != nil {
			break // what stands before it cannot be trusted either
		}
		a = a.Unmap().WithZone("")
		f.scratch = a.AppendTo(f.scratch[:0])
		if !forwarded.IsTrusted(a, proxies) {
			break
		}
	}
	return f.scratch
}
