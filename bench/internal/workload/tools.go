package workload

import "sync/atomic"

// The prompts of every run.
const (
	SystemPrompt = "You are a careful assistant that plans trips. Use the tools to look up the weather and to add numbers. " +
		"Answer in one short paragraph and do not invent data."
	UserPrompt = "Plan a long weekend in Paris next month: check the weather for each day, add up the costs of the hotel and the train, " +
		"and tell me whether I should go."
)

// Names, descriptions and argument schemas of the two tools.
const (
	WeatherName        = "get_weather"
	WeatherDescription = "Looks up the weather forecast for a city."
	WeatherSchema      = `{"type":"object","properties":{"city":{"type":"string","description":"The city to look up"},` +
		`"days":{"type":"integer","description":"How many days"}},"required":["city","days"],"additionalProperties":false}`

	AddName        = "add"
	AddDescription = "Adds two whole numbers."
	AddSchema      = `{"type":"object","properties":{"a":{"type":"integer","description":"first term"},` +
		`"b":{"type":"integer","description":"second term"}},"required":["a","b"],"additionalProperties":false}`
)

// ToolsJSON is the tools array of a chat-completions request.
const ToolsJSON = `[{"type":"function","function":{"name":"` + WeatherName + `","description":"` + WeatherDescription +
	`","parameters":` + WeatherSchema + `}},{"type":"function","function":{"name":"` + AddName + `","description":"` + AddDescription +
	`","parameters":` + AddSchema + `}}]`

// WeatherIn is the argument of the weather tool.
type WeatherIn struct {
	City string `json:"city" description:"The city to look up"`
	Days int    `json:"days" description:"How many days"`
}

// WeatherOut is the result of the weather tool.
type WeatherOut struct {
	City    string  `json:"city"`
	TempC   float64 `json:"temp_c"`
	Summary string  `json:"summary"`
	Days    int     `json:"days"`
}

// AddIn is the argument of the adding tool.
type AddIn struct {
	A int `json:"a" description:"first term"`
	B int `json:"b" description:"second term"`
}

// AddOut is the result of the adding tool.
type AddOut struct {
	Sum int `json:"sum"`
}

// Tools are the typed tools. The zero value is ready to use, from any number of
// goroutines.
type Tools struct{ calls atomic.Int64 }

// Calls returns how many calls there have been.
func (t *Tools) Calls() int64 { return t.calls.Load() }

// Weather is the weather tool.
func (t *Tools) Weather(in WeatherIn) WeatherOut {
	t.calls.Add(1)
	return WeatherOut{City: in.City, TempC: 21.5, Summary: "mild with light wind and a few clouds in the afternoon", Days: in.Days}
}

// Add is the adding tool.
func (t *Tools) Add(in AddIn) AddOut {
	t.calls.Add(1)
	return AddOut{Sum: in.A + in.B}
}
