package openai

import (
	"strings"

	"github.com/rouse-run/rouse/model"
)

// Capabilities implements model.Capable: what Config.Capabilities says, or what
// the model's name tells, with Config.Window in place of the window when it is
// set. An empty name means the default model. Of a name that it does not know it
// claims nothing, so text is all that is sent.
func (m *Model) Capabilities(name string) model.Capabilities {
	if name == "" {
		name = m.cfg.Model
	}
	var c model.Capabilities
	if m.cfg.Capabilities != nil {
		c = m.cfg.Capabilities(name)
	} else {
		c = capabilitiesOf(name)
	}
	if m.cfg.Window > 0 {
		c.Window = m.cfg.Window
	}
	return c
}

type family struct {
	prefix string
	caps   model.Capabilities
}

// families lists models by the beginning of their names; the longest match wins.
func families() []family {
	all := func(window, out int) model.Capabilities {
		return model.Capabilities{Window: window, MaxOutput: out, Images: true, Files: true, Output: true}
	}
	sight := func(window int) model.Capabilities {
		return model.Capabilities{Window: window, Images: true, Output: true}
	}
	words := func(window int) model.Capabilities { return model.Capabilities{Window: window, Output: true} }
	return []family{
		{"gpt-4o", all(128_000, 16_384)},
		{"chatgpt-4o", sight(128_000)},
		{"gpt-4.1", all(1_047_576, 32_768)},
		{"gpt-4.5", all(128_000, 16_384)},
		{"gpt-5", all(400_000, 128_000)},
		{"gpt-4-turbo", model.Capabilities{Window: 128_000, MaxOutput: 4_096, Images: true}},
		{"gpt-4", model.Capabilities{Window: 8_192}},
		{"gpt-3.5", model.Capabilities{Window: 16_385, MaxOutput: 4_096}},
		{"gpt-oss", words(131_072)},
		{"o1", all(200_000, 100_000)},
		{"o1-mini", model.Capabilities{Window: 128_000, MaxOutput: 65_536}},
		{"o3", all(200_000, 100_000)},
		{"o3-mini", words(200_000)},
		{"o4-mini", all(200_000, 100_000)},
		{"claude-", model.Capabilities{Window: 200_000, Images: true, Files: true}},
		{"gemini-", all(1_048_576, 0)},
		{"deepseek-", model.Capabilities{Window: 128_000}},
		{"pixtral", sight(128_000)},
		{"llava", sight(0)},
		{"gemma-3", sight(128_000)},
		{"gemma3", sight(128_000)},
		{"qwen2.5-vl", sight(0)},
		{"qwen2.5vl", sight(0)},
		{"qwen3-vl", sight(0)},
		{"llama-3.2-11b-vision", sight(128_000)},
		{"llama-3.2-90b-vision", sight(128_000)},
		{"llama3.2-vision", sight(128_000)},
		{"llama-4", sight(0)},
		{"llama4", sight(0)},
	}
}

func capabilitiesOf(name string) model.Capabilities {
	// routers put the vendor in front
	name = strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	var best family
	for _, f := range families() {
		if strings.HasPrefix(name, f.prefix) && len(f.prefix) > len(best.prefix) {
			best = f
		}
	}
	return best.caps
}
