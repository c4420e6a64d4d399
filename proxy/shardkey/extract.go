package shardkey

import (
	"bytes"
	"net/netip"
	"slices"

	"shardway/internal/problem"
	"shardway/keysource"
	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
	"shardway/proxy/wrapkey"
)

// generatedKeyLen is the length of the value of the sticky cookie, and of a generated key: 128 bits in
// hexadecimal.
const generatedKeyLen = 32

// Problem details for requests in which the app may read a different key.
const (
	detailTwoKeys       = "two different keys in "
	detailHopByHopKey   = "the Connection header removes what the key is read from: "
	detailAmbiguousPath = "an ambiguous path (., .., an empty segment, an encoded slash, \\ or ;) for "
	pathRoutesSubject   = "the routes"

	detailAmbiguousPattern = "an ambiguous path (., .., an empty segment, an encoded slash, \\, ;, another case of letters, or several matches) for "
	detailEncodedToken     = "a percent-encoded token for "
	detailLongJoined       = "a key of more than 16 KiB in "
)

// Extractor finds the keys of the requests of one connection. The exported fields must be set
// before Find.
type Extractor struct {
	Request        *h1.Request
	Client         *forwarded.Client              // address of the client of the connection
	TrustedProxies []netip.Prefix                 // the trusted proxies of the settings
	Keys           *Keys                          // configuration to use; nil before the first search
	Place          PlaceFunc                      // placement of a new key; nil means that any key is suitable
	Codec          *wrapkey.Codec                 // verifies wrapped values; nil means the fixed key
	ReportClaim    func(source, structure string) // called if a claim is an array or object, which can never be a key; may be nil
	FirstMessage   *FirstMessage                  // first message of the request's WebSocket; nil if it was not read

	// State of the current Find.

	rules   *rules           // rules of the request's service
	wrapped *wrapkey.Request // wrapped values of the request; nil means that the configuration has none

	// Buffers that are reused for each request.

	hostBuffer []byte // host name, during Find
	joined     []byte // joined key, until the next call of Find
	scratch    []byte // key, until the next call of Find
	clientIP   []byte // result of ClientIP, until its next call
}

// Found is the key of a request.
type Found struct {
	Key     []byte
	Keyless bool   // without a key, any app may serve the request, preferably that of this node
	Minted  bool   // the key was generated for this request (keysource.Mint)
	Cookie  []byte // value of the sticky cookie to set
	// Wrapped contains the suffixes to remove from the request and to add to the response. nil means
	// that the configuration has no wrapped fields.
	Wrapped   *wrapkey.Request
	isWrapped bool // the key comes from a suffix
	// NeedsBody is set if the key may be in the body. The caller must read the body up to
	// Keys.BodyLimit, and then call FindInBody.
	NeedsBody bool
	// AwaitsMessage is set if the key may be in the first message of the WebSocket. The node must
	// accept the WebSocket, read the message, and call Find again. Protocols contains the
	// subprotocols that it may select, in order of preference.
	AwaitsMessage bool
	Protocols     []string
}

// Find returns the key of the request, or the problem with which to refuse it. gateway is set if
// this node has no app.
func (e *Extractor) Find(gateway bool) (Found, *problem.Problem) { return e.FindInBody(gateway, nil) }

// FindInBody is like Find, for a request whose body has been read because of Found.NeedsBody. nil
// means that the body has not been read.
func (e *Extractor) FindInBody(gateway bool, body *Body) (Found, *problem.Problem) {
	if e.Keys.headerNames != nil { // some servers merge trailers into the headers
		e.Request.Body.ForbidTrailers(e.Keys.headerNames)
	}
	e.rules = &e.Keys.rules
	if e.Keys.services != nil {
		if invalid := e.findService(); invalid != nil {
			return Found{}, invalid
		}
		gateway = false // each node with an app of the service serves a request without a key
	}
	sources, unambiguous := e.sourcesForPath()
	if !unambiguous {
		return Found{}, ambiguityProblem(detailAmbiguousPath, pathRoutesSubject)
	}
	if e.Keys.wrapped != nil {
		return e.findWrapped(sources, gateway, body)
	}
	return e.findInSources(sources, gateway, body)
}

// findInSources returns the key from the first source that gives one, or applies on-missing-key.
func (e *Extractor) findInSources(sources *keysource.SourceList, gateway bool, body *Body) (Found, *problem.Problem) {
	for i := range sources.Sources {
		source := &sources.Sources[i]
		if e.readsMessage(source) {
			return Found{AwaitsMessage: true, Protocols: sources.Protocols}, nil
		}
		key, needsBody, problemText := e.sourceKey(source, body)
		if needsBody {
			return Found{NeedsBody: true}, nil
		}
		if problemText != "" {
			return Found{}, ambiguityProblem(problemText, source.String())
		}
		if key != nil {
			return Found{Key: key, Minted: source.Kind == keysource.Mint, isWrapped: source.Kind == keysource.Wrap}, nil
		}
	}
	if e.mustCreateWrappedKey(sources) {
		return Found{Key: e.mintKey(e.Grow(generatedKeyCap)), Minted: true}, nil
	}
	if sources.ServedByAnyNode() {
		return Found{Keyless: true}, nil
	}
	return e.withoutKey(sources, gateway, body)
}

// sourcesForPath returns the key sources for the path of the request. unambiguous is false if the app
// may interpret the path differently, so that it may be below another route.
func (e *Extractor) sourcesForPath() (sources *keysource.SourceList, unambiguous bool) {
	table := e.rules.table
	if !table.HasRoutes() {
		return table.Defaults(), true
	}
	path := keysource.ParsePath(e.Grow(len(e.Request.Path())), e.Request.Path())
	return table.Match(&path)
}

// ambiguityProblem returns the problem of a request in which this node and the app could read
// different keys. The app may own the shard of only one of them. The detail is one of the texts
// above, which end with the subject that is ambiguous.
func ambiguityProblem(detail, subject string) *problem.Problem {
	return &problem.Problem{Code: problem.BadRequest, Detail: detail + subject, Param: subject}
}

// noKeyRemedy ends the detail for a request without a key, with remedies for client and operator.
const noKeyRemedy = "; send the key there, or name its place with --key, or set --on-missing-key"

// withoutKey returns the result for a request without a key, according to the policy
// on-missing-key. A CORS preflight cannot contain the header with the key (WHATWG Fetch, section
// 4.8), so it is not refused; any node's app may respond to it.
func (e *Extractor) withoutKey(sources *keysource.SourceList, gateway bool, body *Body) (Found, *problem.Problem) {
	switch e.rules.missingPolicy {
	case keysource.MissingLocal:
		if gateway && !e.isPreflight() {
			detail := e.missingKeyDetail(sources, body) + "; this node is a gateway without an app"
			return Found{}, &problem.Problem{Code: problem.NoKey, Detail: detail}
		}
		return Found{Keyless: true}, nil
	case keysource.MissingHashPath:
		return Found{Key: keysource.NormalPath(e.scratch, e.Request.Path())}, nil
	case keysource.MissingCookie:
		return e.stickyKey(), nil
	case keysource.MissingReject:
	}
	if e.isPreflight() {
		return Found{Keyless: true}, nil
	}
	return Found{}, &problem.Problem{Code: problem.NoKey, Detail: e.missingKeyDetail(sources, body) + noKeyRemedy, Param: sources.Description}
}

// missingKeyDetail describes where the key of the request was expected.
func (e *Extractor) missingKeyDetail(sources *keysource.SourceList, body *Body) string {
	return "looked for " + sources.Description + e.structuredClaimHint(sources) + e.unreadBodyHint(sources.Sources, body)
}

// isPreflight reports whether the request is a CORS preflight.
func (e *Extractor) isPreflight() bool {
	return string(e.Request.Method()) == "OPTIONS" && len(e.Request.Value("Access-Control-Request-Method")) > 0
}

// sourceKey returns the key that a source gives, or nil if it gives none. needsBody reports whether
// the source must read the body first. If the request must be refused, problemText is the reason.
func (e *Extractor) sourceKey(source *keysource.Source, body *Body) (key []byte, needsBody bool, problemText string) {
	switch {
	case source.Kind == keysource.Joined:
		return e.joinedKey(source, body)
	case source.ReadsBody():
		return e.bodyKey(source, body)
	}
	key, problemText = e.keyFromSource(source)
	return key, false, problemText
}

// keyFromSource returns the key that a source of a single kind finds outside of the body, or nil if it gives none.
// If the request must be refused, problemText is the reason.
func (e *Extractor) keyFromSource(source *keysource.Source) (key []byte, problemText string) {
	switch source.Kind {
	case keysource.Header:
		return e.headerKey(source.Name)
	case keysource.Path:
		if source.Pattern != nil {
			key, unambiguous := source.Pattern.Key(e.Grow(len(e.Request.Path())), e.Request.Path())
			if !unambiguous {
				return nil, detailAmbiguousPattern
			}
			return key, ""
		}
		path := keysource.ParsePath(e.Grow(len(e.Request.Path())), e.Request.Path())
		segment, unambiguous := path.Segment(source.Segment)
		if !unambiguous {
			return nil, detailAmbiguousPath
		}
		return segment, ""
	case keysource.Query:
		value, same := queryValue(e.Grow(len(e.Request.Query())), e.Request.Query(), source.Name)
		if !same {
			return nil, detailTwoKeys
		}
		return value, ""
	case keysource.Cookie:
		return e.cookieKey(source.Name)
	case keysource.Host:
		name := hostName(e.Grow(len(e.Request.Host())), e.Request.Host())
		if source.Segment > 0 {
			return hostLabel(name, source.Segment), ""
		}
		return name, ""
	case keysource.JWT:
		return e.jwtKey(source)
	case keysource.IP:
		proxies, trusted := e.trustedProxies()
		e.scratch = e.appendClientIP(e.scratch[:0], proxies, trusted)
		return e.scratch, ""
	case keysource.Mint:
		isOtherMethod := source.Name != "" && string(e.Request.Method()) != source.Name
		if isOtherMethod || e.isPreflight() { // a preflight creates nothing
			return nil, ""
		}
		return e.mintKey(e.Grow(generatedKeyCap)), ""
	case keysource.Wrap:
		return e.wrappedKey(source)
	case keysource.None, keysource.Joined: // see findInSources and joinedKey
	case keysource.JSON, keysource.Form: // see bodyKey
	case keysource.WSJSON, keysource.WSFirst:
		return e.firstMessageKey(source)
	case keysource.WSProtocol: // not a source
	}
	return nil, ""
}

// maxJoined is the maximum size of a joined key in bytes. Each of them may take three bytes in the
// header Shardway-Key.
const maxJoined = 16 << 10

// joinedKey returns the keys of all parts of a source, joined. It returns nil if a part gives no key. If
// the request must be refused, problemText is the reason. The body is needed only if all parts outside of it
// have a key.
func (e *Extractor) joinedKey(source *keysource.Source, body *Body) (key []byte, needsBody bool, problemText string) {
	if body == nil && source.ReadsBody() {
		for i := range source.Parts {
			if source.Parts[i].ReadsBody() {
				continue
			}
			if part, problemText := e.keyFromSource(&source.Parts[i]); problemText != "" || part == nil {
				return nil, false, problemText
			}
		}
	}
	key = e.joined[:0]
	for i := range source.Parts {
		part, needsBody, problemText := e.sourceKey(&source.Parts[i], body)
		if needsBody || problemText != "" || part == nil {
			return nil, needsBody, problemText
		}
		if i > 0 {
			key = append(key, '+')
		}
		if key = keysource.AppendPart(key, part); len(key) > maxJoined {
			return nil, false, detailLongJoined
		}
	}
	e.joined = key
	return key, false, ""
}

// headerKey returns the value of the header lines with this name, including lines with _ instead of
// -, because an app may take any of them for the key. Lines that the app does not receive are
// skipped.
func (e *Extractor) headerKey(name string) (key []byte, problemText string) {
	for i := e.Request.FindLookalike(name, 0); i >= 0; i = e.Request.FindLookalike(name, i+1) {
		_, value := e.Request.Field(i)
		field := e.Request.KnownField(i)
		if field == h1.FieldHost {
			value = e.Request.Host() // the value that the app receives, even for a target in absolute form
		}
		if len(value) == 0 || e.removedFields().Has(field) {
			continue
		}
		switch {
		case e.Request.IsConnectionOption(i):
			return nil, detailHopByHopKey
		case key == nil:
			key = value
		case !bytes.Equal(value, key):
			return nil, detailTwoKeys
		}
	}
	return key, ""
}

// removedFields returns the fields that the app does not receive as the client sent them.
func (e *Extractor) removedFields() h1.FieldSet {
	if _, trusted := e.trustedProxies(); trusted {
		return h1.HopByHop | h1.Shardway | h1.Lookalikes
	}
	return h1.HopByHop | h1.Shardway | h1.Lookalikes | h1.Forwarding
}

// cookieKey returns the first cookie with this name. If the app may read a different one,
// problemText is the reason.
func (e *Extractor) cookieKey(name string) (key []byte, problemText string) {
	for i := e.Request.Find("Cookie", 0); i >= 0; i = e.Request.Find("Cookie", i+1) {
		_, field := e.Request.Field(i)
		value, same := cookieValue(field, name)
		if value == nil && same {
			continue
		}
		if key == nil {
			key = value
		}
		switch {
		case e.Request.IsConnectionOption(i):
			problemText = detailHopByHopKey
		case !same || !bytes.Equal(value, key):
			problemText = detailTwoKeys
		}
	}
	if key != nil && e.hasCookieInOtherCase(name, key) {
		problemText = detailTwoKeys
	}
	return key, problemText
}

// hasCookieInOtherCase reports whether a cookie whose name differs from name only in the case of
// letters has a value other than key.
func (e *Extractor) hasCookieInOtherCase(name string, key []byte) bool {
	for i := e.Request.Find("Cookie", 0); i >= 0; i = e.Request.Find("Cookie", i+1) {
		_, field := e.Request.Field(i)
		for pair := range bytes.SplitSeq(field, []byte(";")) {
			cookieName, text, _ := bytes.Cut(bytes.Trim(pair, blanks), []byte("="))
			if isOtherCase(cookieName, name) && !bytes.Equal(text, key) {
				return true
			}
		}
	}
	return false
}

// Grow returns an empty slice of scratch memory with a capacity of n bytes. It is valid until the
// next call.
func (e *Extractor) Grow(n int) []byte {
	if cap(e.scratch) < n {
		e.scratch = make([]byte, 0, n)
	}
	return e.scratch[:0]
}

// stickyKey takes the key from the sticky cookie, or generates one that the response sets. Values
// that Shardway cannot have set are replaced.
func (e *Extractor) stickyKey() Found {
	// The first of several cookies counts: the app uses the header Shardway-Key, not the cookie.
	if value, _ := e.cookieKey(e.rules.cookie.Name); len(value) == generatedKeyLen && isHex(value) {
		return Found{Key: value}
	}
	value := e.stickyCookieKey(make([]byte, 0, generatedKeyCap))
	return Found{Key: value, Cookie: value}
}

// isHex reports whether text consists of hexadecimal digits.
func isHex(text []byte) bool {
	for _, c := range text {
		digit := c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
		if !digit {
			return false
		}
	}
	return true
}

// ClientIP returns the address of the client that sent the request. Behind trusted proxies it is
// the last address that does not belong to a trusted proxy. The key returned by Find stays valid.
func (e *Extractor) ClientIP() []byte {
	e.clientIP = e.appendClientIP(e.clientIP[:0], e.TrustedProxies, e.Client.Trusted)
	return e.clientIP
}

// trustedProxies returns the networks of the proxies whose forwarding headers count for keys, and
// whether the client belongs to one of them.
func (e *Extractor) trustedProxies() (proxies []netip.Prefix, trusted bool) {
	if e.Keys != nil && e.Keys.usesProxies {
		return e.Keys.trustedProxies, forwarded.IsTrusted(e.Client.Addr, e.Keys.trustedProxies)
	}
	return e.TrustedProxies, e.Client.Trusted
}

// forwardedFor returns the entries of all X-Forwarded-For lines. Each proxy has appended the address
// of its client.
func (e *Extractor) forwardedFor() [][]byte {
	const name = "X-Forwarded-For"
	var lines [][]byte
	for i := e.Request.Find(name, 0); i >= 0; i = e.Request.Find(name, i+1) {
		_, value := e.Request.Field(i)
		lines = append(lines, value)
	}
	return bytes.Split(bytes.Join(lines, []byte(",")), []byte(","))
}

// appendClientIP appends the address of the client to b, which must be empty. proxies are the trusted
// proxies, and trusted reports whether the peer of this connection is one of them.
func (e *Extractor) appendClientIP(b []byte, proxies []netip.Prefix, trusted bool) []byte {
	b = append(b, e.Client.Text...)
	if !trusted {
		return b
	}
	for _, entry := range slices.Backward(e.forwardedFor()) {
		addr, err := netip.ParseAddr(string(bytes.TrimSpace(entry)))
		if err != nil {
			break // earlier entries cannot be trusted either
		}
		addr = addr.Unmap().WithZone("")
		b = addr.AppendTo(b[:0])
		if !forwarded.IsTrusted(addr, proxies) {
			break
		}
	}
	return b
}
