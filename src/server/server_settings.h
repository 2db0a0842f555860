/* What the server needs of the config, taken apart and checked. */
#ifndef STATOR_SERVER_SERVER_SETTINGS_H
#define STATOR_SERVER_SERVER_SETTINGS_H

#include "config/config.h"
#include "server/http/http_fetch.h"

#include <sys/socket.h>

#define SERVER_MAX_KEYS 16
#define SERVER_KEY      256 /* bytes of a key, with the end */

struct server_settings {
    struct sockaddr_storage address;
    socklen_t address_length;
    char address_text[64]; /* "127.0.0.1", "[::1]" */
    bool loopback;
    uint32_t n_keys; /* 0: no key is asked for */
    char keys[SERVER_MAX_KEYS][SERVER_KEY];
    uint32_t max_connections;
    uint64_t max_body; /* 0: until server_open, which follows the context */
    uint64_t request_timeout_ns;
    uint32_t default_max_tokens; /* 0: the rest of the context */
    bool clamp_tokens;           /* server.max_tokens */
    bool refuse_unknown;         /* server.unknown_fields */
    bool strict_model;
    bool json_spaces; /* server.json_whitespace is "free" */
    bool limits_reasoning;
    uint32_t reasoning_budget; /* where limits_reasoning */
    char reasoning_message[CONFIG_LIST];
    char alias[CONFIG_LIST]; /* names separated by commas, model.name in front */
    char name[CONFIG_LIST];  /* the first of them; "": the model's own counts */
    struct config_sampling sampling;
    char model[CONFIG_PATH]; /* model.path */
    bool stay_on_fault;
    uint64_t deadline_ns;    /* devices.deadline */
    char cors[CONFIG_LIST];  /* origins separated by ", "; "" or "*" */
    char hosts[CONFIG_LIST]; /* further names that Host may have */
    struct http_fetch_hosts image_hosts;
    bool page;
    bool log_requests;
    bool log_json;
    char log_file[CONFIG_PATH];
};

/* STATOR_USAGE: an address that is none, a key file that can't be read, an address open to others without
 * either a key or server.open. */
stator_status server_settings_read(const struct config *c, struct server_settings *out, stator_error *e);

/* The next of names separated by commas: its n bytes, without blanks at its ends. *list moves behind it.
 * False: no name is left. */
bool server_settings_next_name(const char **list, const char **name, size_t *n);

#endif
