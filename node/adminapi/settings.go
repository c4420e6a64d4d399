package adminapi

// ApplySettings replaces the settings of this node that must be the same on all nodes, by name. The caller
// must not modify the map afterwards.
func (a *API) ApplySettings(settings map[string]string) { a.settings.Store(&settings) }

// OwnSettings returns the settings of the last call of ApplySettings, or Options.Settings before the first
// call.
func (a *API) OwnSettings() map[string]string {
	if settings := a.settings.Load(); settings != nil {
		return *settings
	}
	return a.options.Settings
}
