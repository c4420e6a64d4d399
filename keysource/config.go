package keysource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"shardway/internal/valueerr"
)

// MaxConfig is the maximum size of a canonical key configuration in bytes. It is limited because
// nodes exchange it.
const MaxConfig = 16 << 10

// Config is the key configuration: all settings that affect which key a request has. Two nodes
// with the same key configuration find the same key in every request.
type Config struct {
	Spec
	Missing Missing
	// TrustedProxies has the networks whose forwarding headers are trusted. It is part of the key
	// configuration only if a source depends on such a header; see UsesProxies.
	TrustedProxies []netip.Prefix
	// Cookie is the scope of the sticky cookie. It is part of the key configuration only if Missing is
	// MissingCookie.
	Cookie CookieScope
	// BodyBuffer is the maximum size in bytes of a body from which a key is read. It is part of the
	// key configuration only if a source reads the body; see UsesBody.
	BodyBuffer int64
	// Services contains the services of the cluster. nil means that it has one service, which Spec, Missing
	// and Cookie describe. Otherwise these three have their zero values.
	Services []Service
}

// canonicalConfig is the JSON form of a Config.
type canonicalConfig struct {
	Key            []string            `json:"key"`
	Routes         map[string][]string `json:"routes,omitempty"`
	OnMissingKey   Missing             `json:"on_missing_key"`
	Cookie         *CookieScope        `json:"cookie,omitempty"` // nil means the default scope
	TrustedProxies []string            `json:"trusted_proxies,omitempty"`
	BodyBuffer     int64               `json:"body_buffer,omitempty"`
}

// Canonical returns a text that is the same for all equivalent configurations: header names are in
// lower case, path prefixes are decoded, networks are sorted. ParseConfig parses it. It returns an
// error if the Spec is invalid or the text is larger than MaxConfig.
func (c Config) Canonical() (string, error) {
	if c.Services != nil {
		result, err := c.canonicalServices()
		if err != nil {
			return "", err
		}
		result.TrustedProxies, result.BodyBuffer = c.canonicalProxies(), c.canonicalBodyBuffer()
		return encodeCanonical(result, "services", "the services and trusted-proxies")
	}
	if _, err := NewTable(c.Spec); err != nil {
		return "", err
	}
	routes, err := canonicalPaths(c.Routes)
	if err != nil {
		return "", err
	}
	result := canonicalConfig{Key: CanonicalSources(c.Sources), Routes: routes, OnMissingKey: c.Missing}
	if scope := c.Cookie.withoutDefaults(); c.Missing == MissingCookie && scope != (CookieScope{}) {
		if err := c.CheckCookie(); err != nil {
			return "", err
		}
		result.Cookie = &scope
	}
	result.TrustedProxies, result.BodyBuffer = c.canonicalProxies(), c.canonicalBodyBuffer()
	return encodeCanonical(result, "routes", "key, routes and trusted-proxies")
}

// canonicalProxies returns the trusted proxies, if keys depend on them.
func (c Config) canonicalProxies() []string {
	if !c.UsesProxies() {
		return nil
	}
	return sortedNetworks(c.TrustedProxies)
}

// canonicalBodyBuffer returns the size of the body buffer, if keys depend on it.
func (c Config) canonicalBodyBuffer() int64 {
	if !c.UsesBody() {
		return 0
	}
	return c.BodyBuffer
}

// encodeCanonical returns a canonical key configuration as text. key and parts name the settings in the
// error for a text that is too large.
func encodeCanonical(result any, key, parts string) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(result); err != nil {
		return "", fmt.Errorf("keysource: canonical key configuration: %w", err)
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if len(text) > MaxConfig {
		return "", &valueerr.Error{
			Key: key, Value: "…", Wrong: fmt.Sprintf("%s together take %d bytes, more than %d", parts, len(text), MaxConfig), Remedy: "use fewer or shorter routes",
		}
	}
	return text, nil
}

// allSources returns the sources of the defaults and of all routes, of all services.
func (c Config) allSources() []string {
	all := allSources(c.Spec)
	for i := range c.Services {
		all = append(all, allSources(c.Services[i].Keys)...)
	}
	return all
}

// allSources returns the sources of the defaults and of all routes.
func allSources(spec Spec) []string {
	all := slices.Clone(spec.Sources)
	for _, route := range spec.Routes {
		all = append(all, route.Sources...)
	}
	return all
}

// CanonicalSources returns the sources in canonical form: header names are in lower case. An
// invalid source is returned unchanged. An empty list means Default.
func CanonicalSources(texts []string) []string {
	if len(texts) == 0 {
		texts = []string{Default}
	}
	canonical := make([]string, len(texts))
	for i, text := range texts {
		source, err := Parse(text)
		if err != nil {
			canonical[i] = text
			continue
		}
		canonical[i] = source.canonical().String()
	}
	return canonical
}

// escapePrefix escapes a decoded path prefix. It is the inverse of parsePrefix.
func escapePrefix(prefix string) string {
	var b strings.Builder
	for i := range len(prefix) {
		if c := prefix[i]; c > ' ' && c < 0x7f && !strings.ContainsRune(`%#;\`, rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// sortedNetworks returns the networks as sorted text without duplicates.
func sortedNetworks(networks []netip.Prefix) []string {
	texts := make([]string, len(networks))
	for i, network := range networks {
		texts[i] = network.Masked().String()
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// UsesProxies reports whether keys depend on the trusted proxies. This is the case if a source is
// the address of the client, or a forwarding header, which is trusted only from a trusted proxy.
func (c Config) UsesProxies() bool {
	return slices.ContainsFunc(c.allSources(), func(text string) bool {
		source, err := Parse(text)
		return err == nil && slices.ContainsFunc(source.Single(), func(single Source) bool {
			return single.Kind == IP || single.Kind == Header && isForwardingHeader(single.Name)
		})
	})
}

// UsesBody reports whether a source reads the body. Then the size of the body buffer decides which
// requests have a key.
func (c Config) UsesBody() bool {
	return slices.ContainsFunc(c.allSources(), func(text string) bool {
		source, err := Parse(text)
		return err == nil && source.ReadsBody()
	})
}

// isForwardingHeader reports whether a header contains what a proxy reports about its client. Apps may
// not distinguish _ from -.
func isForwardingHeader(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	return strings.HasPrefix(name, "x-forwarded-") || name == "forwarded" || name == "x-real-ip"
}

// ParseConfig parses a text that Canonical has returned. It returns an error for any other text,
// for example one that another version of the program has written.
func ParseConfig(text string) (Config, error) {
	if len(text) > MaxConfig {
		return Config{}, fmt.Errorf("keysource: key configuration of %d bytes, at most %d are allowed", len(text), MaxConfig)
	}
	config, err := decodeConfig(text)
	if err != nil {
		return Config{}, err
	}
	reencoded, err := config.Canonical()
	switch {
	case err != nil:
		return Config{}, fmt.Errorf("keysource: key configuration: %w", err)
	case config.BodyBuffer < 0:
		return Config{}, errors.New("keysource: key configuration: body_buffer is negative")
	case reencoded != text:
		return Config{}, errors.New("keysource: key configuration: not in canonical form")
	}
	if _, err := ParseMissing(string(config.Missing)); err != nil {
		return Config{}, fmt.Errorf("keysource: key configuration: %w", err)
	}
	return config, nil
}

// decodeConfig decodes a key configuration, which may not be in canonical form.
func decodeConfig(text string) (Config, error) {
	if strings.HasPrefix(text, servicesPrefix) {
		var decoded canonicalServices
		if err := decodeJSON(text, &decoded); err != nil {
			return Config{}, err
		}
		config := Config{Services: decoded.services(), BodyBuffer: decoded.BodyBuffer}
		return config, config.setProxies(decoded.TrustedProxies)
	}
	var decoded canonicalConfig
	if err := decodeJSON(text, &decoded); err != nil {
		return Config{}, err
	}
	config := Config{Spec: Spec{Sources: decoded.Key, Routes: routesOf(decoded.Routes)}, Missing: decoded.OnMissingKey, BodyBuffer: decoded.BodyBuffer}
	if decoded.Cookie != nil {
		config.Cookie = *decoded.Cookie
	}
	return config, config.setProxies(decoded.TrustedProxies)
}

// decodeJSON decodes text, which must not have unknown fields.
func decodeJSON(text string, decoded any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(decoded); err != nil {
		return fmt.Errorf("keysource: key configuration %s: %w", strconv.Quote(text[:min(len(text), 64)]), err)
	}
	return nil
}

// setProxies sets the trusted proxies.
func (c *Config) setProxies(networks []string) error {
	for _, text := range networks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("keysource: key configuration: trusted_proxies: %w", err)
		}
		c.TrustedProxies = append(c.TrustedProxies, network)
	}
	return nil
}

// Fields returns the names of the header fields that decide the key of a request. They may be there
// several times.
func (c Config) Fields() []string {
	var fields []string
	hasCookie := slices.ContainsFunc(c.Services, func(service Service) bool { return service.Missing == MissingCookie })
	if c.Missing == MissingCookie || hasCookie {
		fields = append(fields, "Cookie")
	}
	for _, text := range c.allSources() {
		source, err := Parse(text)
		if err != nil {
			continue
		}
		if source.ReadsBody() {
			fields = append(fields, "Content-Type", "Content-Encoding")
		}
		for _, single := range source.Single() {
			fields = append(fields, single.field())
		}
	}
	return slices.DeleteFunc(fields, func(name string) bool { return name == "" })
}

// field returns the name of the header field that a source reads, or an empty text.
func (s Source) field() string {
	switch {
	case s.Kind == Header, s.Kind == Wrap && s.Wrapped == Header:
		return s.Name
	case s.Kind == Cookie, s.Kind == Wrap, s.Kind == JWT && s.Token.Kind == InCookie:
		return "Cookie"
	case s.Kind == JWT && s.Token.Kind == InAuthorization:
		return "Authorization"
	}
	return ""
}
