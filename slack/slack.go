// Package slack puts the questions of a desk into channels of Slack, where people answer them with buttons.
//
//	app, err := slack.New(slack.Options{Token: token, SigningSecret: secret})
//	talk, err := chat.Open(people, app, chat.Options{Name: "slack", …})
//
// The app needs the scope chat:write, and a request URL for interactivity that leads to the [chat.Chat]. With
// channels:history, and groups:history for private channels, a message whose response was lost is found again. Without
// them it can be posted twice. Both can be answered.
//
// Everything that callers and tool authors write is plain text in a message: it mentions nobody, links nowhere and has
// no styles.
package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slack-go/slack"

	"github.com/askback-mcp/askback/desk/chat"
)

// Options configure a [Slack]. Token and SigningSecret are required.
type Options struct {
	Token         string // of the bot: it begins with "xoxb-"
	SigningSecret string // of the app, which signs what Slack sends
	// API is the URL of Slack's API. Empty means https://slack.com/api/.
	API string
	// Client sends the requests. Nil is one with the default transport. No redirect is followed, and a request takes at
	// most ten seconds. After one that Slack has not answered in time, no message is posted or changed for half a minute.
	Client *http.Client
}

// Slack is a [chat.Service]. It is safe for concurrent use.
type Slack struct {
	api    *slack.Client
	http   *client
	secret string
	until  atomic.Int64 // in Unix milliseconds: when Slack is sent messages again
}

var _ chat.Service = (*Slack)(nil)

// New returns the Slack of an app. It sends nothing. The error says what is wrong, and repeats no secret.
func New(opts Options) (*Slack, error) {
	switch {
	case opts.Token == "" || strings.ContainsFunc(opts.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New(`slack: Options.Token must be the bot token of the app, which begins with "xoxb-"`)
	case len(opts.SigningSecret) < 16:
		return nil, errors.New("slack: Options.SigningSecret must be the signing secret that Slack shows for the app")
	}
	api := cmp.Or(opts.API, slack.APIURL)
	if u, err := url.Parse(api); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("slack: Options.API must be the URL of Slack's API; empty means https://slack.com/api/")
	}
	c := new(client)
	if opts.Client != nil {
		c.Client = *opts.Client
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if c.Timeout == 0 || c.Timeout > callTime {
		c.Timeout = callTime
	}
	return &Slack{secret: opts.SigningSecret, http: c, api: slack.New(opts.Token, slack.OptionHTTPClient(c),
		slack.OptionAPIURL(strings.TrimSuffix(api, "/")+"/"))}, nil
}

const (
	callTime = 10 * time.Second
	// silentTime is how long Slack is sent no messages after it has not answered.
	silentTime = 30 * time.Second
	// mostResponse bounds a response. The largest is a page of a channel's messages.
	mostResponse = 8 << 20
)

// client bounds what Slack answers.
type client struct{ http.Client }

func (c *client) Do(r *http.Request) (*http.Response, error) {
	res, err := c.Client.Do(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, mostResponse), res.Body}
	}
	return res, err
}

// eventType names the metadata of our messages.
const eventType = "askback_question"

// Post implements [chat.Service].
func (s *Slack) Post(ctx context.Context, m *chat.Message) (ref string, err error) {
	if err := s.wait(); err != nil {
		return "", err
	}
	if m.Again {
		if ref, err = s.find(ctx, m); ref != "" || err != nil {
			return ref, err
		}
	}
	options := s.options(m)
	if m.ReplyTo != "" {
		_, ts, ok := strings.Cut(m.ReplyTo, "/")
		if !ok {
			return "", fmt.Errorf("slack: %.100q is not a reference to a message", m.ReplyTo)
		}
		options = append(options, slack.MsgOptionTS(ts), slack.MsgOptionBroadcast())
	}
	channel, ts, err := s.api.PostMessageContext(ctx, m.Channel, options...)
	if err != nil {
		return "", s.failure(ctx, "posting to the channel "+m.Channel, err)
	}
	return channel + "/" + ts, nil
}

// Update implements [chat.Service].
func (s *Slack) Update(ctx context.Context, ref string, m *chat.Message) error {
	channel, ts, ok := strings.Cut(ref, "/")
	if !ok {
		return fmt.Errorf("slack: %.100q is not a reference to a message: %w", ref, chat.ErrGone)
	}
	if err := s.wait(); err != nil {
		return err
	}
	_, _, _, err := s.api.UpdateMessageContext(ctx, channel, ts, s.options(m)...)
	if refused, ok := errors.AsType[slack.SlackErrorResponse](err); ok {
		switch refused.Err {
		case "message_not_found", "cant_update_message", "edit_window_closed":
			return fmt.Errorf("slack: changing a message: %q: %w", refused.Err, chat.ErrGone)
		}
	}
	if err != nil {
		return s.failure(ctx, "changing a message in the channel "+channel, err)
	}
	return nil
}

// options are the parts of a message. Its metadata is how it is found.
func (s *Slack) options(m *chat.Message) []slack.MsgOption {
	text, blocks := summary(m), blocksOf(m)
	if m.ReplyTo != "" {
		blocks = []slack.Block{section("This is still open: " + m.Text), context_(factOf(m, "Deadline"))}
	}
	return []slack.MsgOption{
		slack.MsgOptionText(text, true), slack.MsgOptionBlocks(blocks...), slack.MsgOptionDisableMarkdown(),
		slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl(),
		slack.MsgOptionMetadata(slack.SlackMetadata{EventType: eventType, EventPayload: payloadOf(m)}),
	}
}

func payloadOf(m *chat.Message) map[string]any {
	return map[string]any{"name": m.Name, "key": m.Key, "reminder": m.ReplyTo != ""}
}

const (
	mostPages = 5
	pageSize  = 100
)

// find returns the reference of a message that was posted although the response was lost, or nothing. That the
// app may not read the channel is no error: the message is posted again. Another app may have written what is
// found, and then Update says so.
func (s *Slack) find(ctx context.Context, m *chat.Message) (ref string, err error) {
	finding, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	p := &slack.GetConversationHistoryParameters{ChannelID: m.Channel, Limit: pageSize, IncludeAllMetadata: true,
		Oldest: fmt.Sprintf("%d.000000", m.Asked.Add(-5*time.Minute).Unix())}
	want := payloadOf(m)
	for range mostPages {
		page, err := s.api.GetConversationHistoryContext(finding, p)
		if isSilent(err) {
			return "", s.failure(ctx, "looking for a message in the channel "+m.Channel, err)
		}
		if err != nil {
			return "", nil //nolint:nilerr // it is posted again
		}
		for _, found := range page.Messages {
			has := found.Metadata.EventPayload
			if found.Metadata.EventType == eventType && has["name"] == want["name"] && has["key"] == want["key"] &&
				has["reminder"] == want["reminder"] {
				return m.Channel + "/" + found.Timestamp, nil
			}
		}
		if p.Cursor = page.ResponseMetaData.NextCursor; p.Cursor == "" {
			return "", nil
		}
	}
	return "", nil
}

// isSilent is true if Slack has not answered in time.
func isSilent(err error) bool {
	failed, ok := errors.AsType[net.Error](err)
	return ok && failed.Timeout()
}

// wait refuses messages while Slack takes none. That saves requests that would fail, and other receivers of the same
// notices do not wait for Slack.
func (s *Slack) wait() error {
	if d := time.Until(time.UnixMilli(s.until.Load())); d > 0 {
		return fmt.Errorf("slack: the rate limit is met or Slack does not answer, and it is asked again in %v",
			d.Round(time.Second))
	}
	return nil
}

// failure says what Slack has refused, without the addresses of requests.
func (s *Slack) failure(ctx context.Context, doing string, err error) error {
	if isSilent(err) && ctx.Err() == nil { // and it was not the caller who had no more time
		s.until.Store(time.Now().Add(silentTime).UnixMilli())
		return fmt.Errorf("slack: %s: Slack does not answer, and it is asked again in %v", doing, silentTime)
	}
	if limited, ok := errors.AsType[*slack.RateLimitedError](err); ok {
		s.until.Store(time.Now().Add(min(limited.RetryAfter, 10*time.Minute)).UnixMilli())
		return fmt.Errorf("slack: %s: the rate limit is met, and Slack takes messages again in %v", doing, limited.RetryAfter)
	}
	if refused, ok := errors.AsType[slack.SlackErrorResponse](err); ok {
		hint := ""
		switch refused.Err {
		case "channel_not_found", "not_in_channel", "is_archived":
			hint = ": check the ID of the channel, and invite the app to it"
		case "invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive":
			hint = ": check the bot token"
		case "missing_scope", "no_permission":
			hint = ": give the app the scope chat:write, and install it again"
		}
		return fmt.Errorf("slack: %s: %.100q%s", doing, refused.Err, hint)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("slack: %s: %w", doing, err)
}
