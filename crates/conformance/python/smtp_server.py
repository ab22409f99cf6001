"""A server of SMTP that keeps nothing: python3 smtp_server.py [CERTIFICATE KEY USER PASSWORD].

With a certificate it demands STARTTLS and the login. It refuses recipients whose address begins with "refused". Prints
one JSON object a line: the port, then each mail as a mail program understands it.
"""

import email
import email.policy
import json
import ssl
import sys
import time

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult


def say(**what):
    print(json.dumps(what), flush=True)


class Keeper:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refused"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        plain, html = mail.get_body(("plain",)), mail.get_body(("html",))
        parts = [part for part in mail.walk()]
        say(
            recipients=envelope.rcpt_tos,
            sender=envelope.mail_from,
            headers=sorted(mail.keys()),
            to=mail["To"],
            subject=mail["Subject"],
            type=mail.get_content_type(),
            text=plain.get_content(),
            html=html.get_content(),
            defects=[str(defect) for part in parts for defect in part.defects],
            longest_line=max(len(line) for line in envelope.content.splitlines()),
            encrypted=session.ssl is not None,
            user=session.auth_data and session.auth_data.login.decode(),
        )
        return "250 taken"


class Server(Controller):
    def __init__(self, arguments):
        self.arguments = arguments
        super().__init__(Keeper(), hostname="127.0.0.1", port=0)

    def factory(self):
        if not self.arguments:
            return SMTP(self.handler)
        certificate, key, user, password = self.arguments
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)

        def check(server, session, envelope, mechanism, login):
            is_right = (login.login, login.password) == (user.encode(), password.encode())
            return AuthResult(success=is_right, handled=False, auth_data=login)

        return SMTP(self.handler, tls_context=context, require_starttls=True, auth_required=True, authenticator=check)

    def _trigger_server(self):
        """The base class connects to the port that was asked for, which is 0."""
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


server = Server(sys.argv[1:])
server.start()
say(port=server.port)
while True:
    time.sleep(3600)
